/** CommonJS modules: a function around the text, and a guess at what it exports. */
import { Edits } from "./edits.js";
import { FORMAT } from "./format.js";
import { PrefixTaken, Rewriter } from "./rewrite.js";
import { parseModule } from "./parse.js";

/** @typedef {import("./scope.js").Node} Node */

/** @param {Node} node @returns {boolean} `exports` or `module.exports` */
function isExports(node) {
  if (node.type === "Identifier") return node.name === "exports";
  return node.type === "MemberExpression" && !node.computed && node.object.type === "Identifier" && node.object.name === "module" &&
    node.property.name === "exports";
}

/** @param {Node} node a key or property @param {boolean} computed @returns {string | null} */
function keyName(node, computed) {
  if (node.type === "Literal" && typeof node.value === "string") return node.value;
  return node.type === "Identifier" && !computed ? node.name : null;
}

/**
 * Looks at every statement and expression outside of nothing: where a bundler puts its exports. A guess; the linker takes what there
 * really is once the module has run.
 * @param {Node} node @param {Set<string>} names
 */
function findNames(node, names) {
  if (node.type === "AssignmentExpression") {
    const { left, right } = node;
    if (left.type === "MemberExpression" && isExports(left.object)) {
      const name = keyName(left.property, left.computed);
      if (name !== null) names.add(name);
    }
    if (isExports(left) && right.type === "ObjectExpression")
      for (const property of right.properties) {
        const name = property.type === "Property" ? keyName(property.key, property.computed) : null;
        if (name !== null) names.add(name);
      }
  } else if (node.type === "CallExpression" && node.arguments.length >= 2 && isExports(node.arguments[0]) && node.callee.type === "MemberExpression" &&
    node.callee.property.name === "defineProperty") {
    const name = keyName(node.arguments[1], true);
    if (name !== null) names.add(name);
  }
  for (const key in node) {
    const child = node[key];
    if (Array.isArray(child)) {
      for (const one of child) if (one !== null && typeof one === "object" && typeof one.type === "string") findNames(one, names);
    } else if (child !== null && typeof child === "object" && typeof child.type === "string") {
      findNames(child, names);
    }
  }
}

/** @param {string} source @returns {string} */
export function compileCommonJs(source) {
  for (let attempt = 0; ; attempt++) {
    try {
      return compileWith(source, attempt === 0 ? "$c" : `$c${attempt}_`);
    } catch (error) {
      if (!(error instanceof PrefixTaken)) throw error;
    }
  }
}

/** @param {string} source @param {string} prefix @returns {string} */
function compileWith(source, prefix) {
  const edits = new Edits(source);
  const program = parseModule(source, "commonjs", edits);
  const walk = new Rewriter({ edits, prefix, module: false, imports: new Map() });
  walk.program(program);
  /** @type {Set<string>} */
  const names = new Set();
  findNames(program, names);
  names.delete("default");
  return `({format:${FORMAT},kind:"cjs",names:${JSON.stringify([...names])},` +
    `code:function(exports,require,module,__filename,__dirname,${walk.imported},${walk.hooks}){${edits.apply()}\n}})`;
}
