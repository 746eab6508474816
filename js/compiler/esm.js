/** ES modules: imports and exports become the record that README.md describes. */
import { Edits } from "./edits.js";
import { FORMAT } from "./format.js";
import { SourceError } from "./error.js";
import { PrefixTaken, Rewriter } from "./rewrite.js";
import { parseModule } from "./parse.js";
import { patternNames } from "./scope.js";

/** @typedef {import("./scope.js").Node} Node */

/** An ASCII identifier, which may follow a dot. */
const PLAIN = /^[A-Za-z_$][A-Za-z0-9_$]*$/;
/** Import attributes and what they may be; the linker checks them against the module. */
const TYPES = new Set(["json", "text", "bytes", "wasm"]);

/** @param {Node} node Identifier or string Literal in an import or export list @returns {string} */
const nameOf = (node) => (node.type === "Identifier" ? node.name : node.value);

/** What a module asks of others and offers to them. */
class Links {
  constructor() {
    /** @type {[string, string | null][]} */
    this.requests = [];
    /** @type {Map<string, number>} */
    this.byRequest = new Map();
    /** @type {[number, string][]} */
    this.imports = [];
    /** @type {number[]} */
    this.namespaces = [];
    /** @type {string[]} */
    this.locals = [];
    /** The local binding of each of `locals`. @type {string[]} */
    this.bindings = [];
    /** @type {[string, number, string | null][]} */
    this.indirect = [];
    /** @type {number[]} */
    this.stars = [];
    /** Imported bindings, by local name. @type {Map<string, {request: number, name: string | null}>} */
    this.imported = new Map();
  }

  /** @param {Node} node a declaration with `source` @returns {number} */
  request(node) {
    const type = attributes(node);
    const specifier = node.source.value;
    const key = JSON.stringify([specifier, type]);
    let index = this.byRequest.get(key);
    if (index === undefined) {
      index = this.requests.length;
      this.requests.push([specifier, type]);
      this.byRequest.set(key, index);
    }
    return index;
  }

  /** @param {number} request @param {string} name */
  need(request, name) {
    if (!this.imports.some(([r, n]) => r === request && n === name)) this.imports.push([request, name]);
  }
}

/** @param {Node} node @returns {string | null} the `type` attribute */
function attributes(node) {
  let type = null;
  for (const attribute of node.attributes ?? []) {
    const key = attribute.key.type === "Identifier" ? attribute.key.name : attribute.key.value;
    if (key !== "type") throw new SourceError(attribute.start, `the import attribute "${key}" is not supported (only "type" is)`);
    type = attribute.value.value;
    if (!TYPES.has(type)) throw new SourceError(attribute.start, `the import type "${type}" is not supported (json, text, bytes and wasm are)`);
  }
  return type;
}

/** @param {Links} links @param {Node} node an import declaration */
function collectImport(links, node) {
  const request = links.request(node);
  for (const specifier of node.specifiers) {
    const local = specifier.local.name;
    if (specifier.type === "ImportNamespaceSpecifier") {
      links.imported.set(local, { request, name: null });
    } else {
      const name = specifier.type === "ImportDefaultSpecifier" ? "default" : nameOf(specifier.imported);
      links.imported.set(local, { request, name });
      links.need(request, name);
    }
  }
}

/** @param {Links} links @param {Node} node export ... from, and export * */
function collectReexport(links, node) {
  const request = links.request(node);
  if (node.type === "ExportAllDeclaration") {
    if (node.exported) links.indirect.push([nameOf(node.exported), request, null]);
    else if (!links.stars.includes(request)) links.stars.push(request);
    return;
  }
  for (const specifier of node.specifiers) links.indirect.push([nameOf(specifier.exported), request, nameOf(specifier.local)]);
}

/** Exports of this module's own bindings. @param {Links} links @param {Node} node @param {string} anonymous name for a default export */
function collectExport(links, node, anonymous) {
  /** @param {string} exported @param {string} binding */
  const add = (exported, binding) => {
    const imported = links.imported.get(binding);
    if (imported !== undefined && imported.name !== null) {
      links.indirect.push([exported, imported.request, imported.name]);
      return;
    }
    links.locals.push(exported);
    links.bindings.push(binding);
  };
  if (node.type === "ExportDefaultDeclaration") {
    const named = /^(Function|Class)Declaration$/.test(node.declaration.type) && node.declaration.id;
    add("default", named ? named.name : anonymous);
  } else if (node.declaration) {
    if (node.declaration.type === "VariableDeclaration")
      for (const declarator of node.declaration.declarations) patternNames(declarator.id, (name) => add(name, name));
    else add(node.declaration.id.name, node.declaration.id.name);
  } else {
    for (const specifier of node.specifiers) add(nameOf(specifier.exported), specifier.local.name);
  }
}

/** @param {Node[]} body @param {string} anonymous @returns {Links} */
function collect(body, anonymous) {
  const links = new Links();
  // In source order, so that requests are; exports of imported bindings need the imports, which may stand below them.
  for (const node of body) {
    if (node.type === "ImportDeclaration") collectImport(links, node);
    else if ((node.type === "ExportNamedDeclaration" || node.type === "ExportAllDeclaration") && node.source) collectReexport(links, node);
  }
  for (const node of body)
    if (node.type === "ExportDefaultDeclaration" || (node.type === "ExportNamedDeclaration" && !node.source)) collectExport(links, node, anonymous);
  return links;
}

/** `export default`. @param {Rewriter} walk @param {Edits} edits @param {Node} node @param {string} name @returns {string} for the prologue */
function rewriteDefault(walk, edits, node, name) {
  const { declaration } = node;
  const { source } = edits;
  if (declaration.type === "FunctionDeclaration" || (declaration.type === "ClassDeclaration" && declaration.id)) {
    edits.replaceLines(node.start, declaration.start, "");
    walk.visit(declaration);
    if (declaration.id) return "";
    edits.before(parameterList(source, declaration), ` ${name}`);
    return `${walk.hooks}.name(${name});`;
  }
  const naming = ["ArrowFunctionExpression", "FunctionExpression", "ClassExpression", "ClassDeclaration"].includes(declaration.type);
  const from = defaultEnd(source, node.start);
  edits.replaceLines(node.start, from, naming ? `const ${name}={default:` : `const ${name}=(`);
  if (declaration.type === "ClassDeclaration") {
    walk.visit(declaration);
    edits.after(declaration.end, "}.default;");
    return "";
  }
  walk.visit(declaration);
  const end = source[node.end - 1] === ";" ? node.end - 1 : node.end;
  edits.after(end, naming ? "}.default" : ")");
  if (end === node.end) edits.after(end, ";");
  return "";
}

const SPACE = String.raw`(?:\s|//[^\n\r\u2028\u2029]*|/\*[^]*?\*/)*`;

/** Where the keyword `default` of an export ends. @param {string} source @param {number} start */
function defaultEnd(source, start) {
  const found = new RegExp(`export${SPACE}default`, "y");
  found.lastIndex = start;
  if (!found.test(source)) throw new Error("no default");
  return found.lastIndex;
}

/** Where the parameter list of an anonymous function declaration starts. @param {string} source @param {Node} node */
function parameterList(source, node) {
  const found = new RegExp(`(?:async${SPACE})?function${SPACE}(?:\\*${SPACE})?`, "y");
  found.lastIndex = node.start;
  if (!found.test(source)) throw new Error("no function");
  return found.lastIndex;
}

/**
 * @param {Links} links
 * @param {string} prefix
 * @returns {Map<string, string>} how each imported binding is read
 */
function readings(links, prefix) {
  const result = new Map();
  for (const [local, { request, name }] of links.imported)
    if (name !== null) result.set(local, `${prefix}${request}${PLAIN.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`}`);
  return result;
}

/** @param {string} source @returns {string} */
export function compileModule(source) {
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
  const program = parseModule(source, "module", edits);
  const anonymous = `${prefix}d`;
  const links = collect(program.body, anonymous);
  const walk = new Rewriter({ edits, prefix, module: true, imports: readings(links, prefix) });
  let prologue = "";
  walk.statements(program.body, (node) => {
    switch (node.type) {
      case "ImportDeclaration":
      case "ExportAllDeclaration":
        edits.replaceLines(node.start, node.end, ";");
        return true;
      case "ExportNamedDeclaration":
        if (!node.declaration) {
          edits.replaceLines(node.start, node.end, ";");
          return true;
        }
        edits.replaceLines(node.start, node.declaration.start, "");
        walk.visit(node.declaration);
        return true;
      case "ExportDefaultDeclaration":
        prologue += rewriteDefault(walk, edits, node, anonymous);
        return true;
      case "VariableDeclaration":
        if (node.kind === "using" || node.kind === "await using")
          throw new SourceError(node.start, `"${node.kind}" at the top level of a module is not supported: put it into a block or a function`);
        return false;
      default:
        return false;
    }
  });
  const parameters = [walk.imported, walk.meta, walk.hooks];
  for (let i = 0; i < links.requests.length; i++) parameters.push(`${prefix}${i}`);
  for (const [local, { request, name }] of links.imported)
    if (name === null) {
      parameters.push(`${prefix}n${links.namespaces.length}`);
      prologue += `const ${local}=${prefix}n${links.namespaces.length};`;
      links.namespaces.push(request);
    }
  if (walk.hoisted.size > 0) prologue += `var ${[...walk.hoisted].join(",")};`;
  const getters = links.bindings.map((name) => `()=>${name}`).join(",");
  const list = JSON.stringify;
  const head = `({format:${FORMAT},kind:"esm",tla:${walk.usesAwait},requests:${list(links.requests)},imports:${list(links.imports)},` +
    `namespaces:${list(links.namespaces)},locals:${list(links.locals)},indirect:${list(links.indirect)},stars:${list(links.stars)},` +
    `code:function*(${parameters.join(",")}){"use strict";${prologue}yield[${getters}];`;
  return `${head}${edits.apply()}\n}})`;
}
