/**
 * The walk over a module's tree that both kinds of modules share: imported names, `import()`, `import.meta`, `await` at the top level,
 * `using`, asynchronous context. It only collects edits; what stands around the text is esm.js's and cjs.js's.
 */
import { Scope, patternNames } from "./scope.js";
import { SourceError } from "./error.js";

/** @typedef {import("./scope.js").Node} Node */
/** @typedef {import("./edits.js").Edits} Edits */

/** The source mentions a name that starts with the prefix: choose another one. */
export class PrefixTaken extends Error {}

/**
 * The function that the walk is in.
 * @typedef {object} Frame
 * @property {"module" | "function" | "forAwait"} kind forAwait: the arrow function around a top-level `for await`
 * @property {boolean} async
 * @property {boolean} generator
 * @property {boolean} block false: an arrow function whose body is an expression, which has no place for declarations
 * @property {number} awaits how many were met so far
 * @property {boolean} keeps the context's variable is used, so must be declared
 * @property {Set<string>} labels
 */

/** @param {Frame["kind"]} kind @param {boolean} async @param {boolean} generator @param {boolean} block @returns {Frame} */
const newFrame = (kind, async, generator, block) => ({ kind, async, generator, block, awaits: 0, keeps: false, labels: new Set() });

export class Rewriter {
  /**
   * @param {object} options
   * @param {Edits} options.edits
   * @param {string} options.prefix no identifier of the source starts with it
   * @param {boolean} options.module an ES module: `await` at the top level, `arguments` of nobody
   * @param {Map<string, string>} options.imports imported name -> the expression that reads it
   */
  constructor({ edits, prefix, module, imports }) {
    this.edits = edits;
    this.source = edits.source;
    this.prefix = prefix;
    this.module = module;
    this.imports = imports;
    this.scope = new Scope(null, imports);
    /** @type {Frame} */
    this.frame = newFrame("module", false, false, true);
    /** Whether `arguments` is that of no function. */
    this.argumentsFree = module;
    /** Where the edited text starts with a parenthesis and the original did not: it must not become a call's. @type {Set<number>} */
    this.opened = new Set();
    this.usesAwait = false;
    /** `var` names that moved out of a top-level `for await`. @type {Set<string>} */
    this.hoisted = new Set();

    this.hooks = `${prefix}h`;
    this.imported = `${prefix}i`;
    this.meta = `${prefix}m`;
    this.kept = `${prefix}k`;
    this.disposal = `${prefix}s`;
    this.caught = `${prefix}e`;
    this.resource = `${prefix}u`;
  }

  /** A whole script. @param {Node} program */
  program(program) {
    this.#body(program.body, 0, program.end);
  }

  // --- statements

  /** Statements in a row. @param {Node[]} list @param {(node: Node) => boolean} [handled] */
  statements(list, handled) {
    for (let i = 0; i < list.length; i++) {
      const node = list[i];
      if (handled === undefined || !handled(node)) this.visit(node);
      // The end of the statement before may have rested on this one not starting with a parenthesis.
      if (i > 0 && this.opened.has(node.start)) this.edits.after(list[i - 1].end, ";");
    }
  }

  /** Where the directives of a body end. @param {Node[]} list @param {number} start */
  #directivesEnd(list, start) {
    for (const node of list) {
      if (node.directive === undefined) break;
      start = node.end;
    }
    return start;
  }

  /**
   * The list of a block or function body, between braces that end at `end`.
   * @param {Node[]} list @param {number} start behind the brace @param {number} end the closing brace's offset
   */
  #body(list, start, end) {
    let using = false, asynchronous = false;
    for (const node of list)
      if (isUsing(node)) {
        using = true;
        asynchronous ||= node.kind === "await using";
      }
    if (using) {
      const at = this.#directivesEnd(list, start);
      this.edits.first(at, `;const ${this.disposal}=${this.hooks}.scope();try{`);
      this.statements(list);
      this.edits.after(end, this.#disposalEnd(asynchronous));
    } else {
      this.statements(list);
    }
  }

  /** @param {boolean} asynchronous */
  #disposalEnd(asynchronous) {
    let last = `${this.disposal}.end();`;
    if (asynchronous) {
      last = `${this.#awaitWord()} ${this.disposal}.endAsync();`;
      if (this.#restores()) {
        this.frame.keeps = true;
        last = `${this.kept}=${this.hooks}.get();${last}${this.#restore()}`;
      }
      this.frame.awaits += 1;
    }
    return `}catch(${this.caught}){${this.disposal}.fail(${this.caught});}finally{${last}}`;
  }

  /** In the module's own code `await` is a `yield` to the linker. */
  #awaitWord() {
    if (this.frame.kind !== "module") return "await";
    this.usesAwait = true;
    return "yield";
  }

  /** Whether this function restores the context itself (the linker does it for the module's own code). */
  #restores() {
    return this.frame.kind !== "module";
  }

  #restore() {
    this.frame.keeps = true;
    return `${this.hooks}.set(${this.kept});`;
  }

  /** @param {Node} node */
  #block(node) {
    const outer = this.scope;
    this.scope = new Scope(outer, this.imports);
    this.scope.declareLexical(node.body);
    this.#body(node.body, node.start + 1, node.end - 1);
    this.scope = outer;
  }

  /** @param {Node} node */
  #declaration(node) {
    if (isUsing(node)) this.#usingDeclaration(node);
    else if (node.kind === "var" && this.frame.kind === "forAwait") this.#movedVar(node, false);
    for (const declarator of node.declarations) {
      this.#pattern(declarator.id);
      if (declarator.init) this.visit(declarator.init);
      if (isUsing(node) && declarator.init) {
        this.edits.before(declarator.init.start, `${this.disposal}.${node.kind === "using" ? "add" : "addAsync"}(`);
        this.edits.after(declarator.init.end, ")");
      }
    }
  }

  /** `using` becomes `const`. @param {Node} node */
  #usingDeclaration(node) {
    const from = node.declarations[0].id.start;
    this.edits.replaceLines(node.start, from, "const ");
  }

  /** `var` below a top-level `for await` is the module's: it is declared there, here it only assigns. @param {Node} node @param {boolean} head of a for-in or for-of */
  #movedVar(node, head) {
    const last = node.declarations[node.declarations.length - 1];
    this.edits.replaceLines(node.start, node.declarations[0].id.start, "");
    for (const declarator of node.declarations) patternNames(declarator.id, (name) => this.hoisted.add(name));
    if (head) return;
    this.edits.before(node.declarations[0].id.start, "(");
    this.opened.add(node.start);
    this.edits.after(last.end, ")");
  }

  /** Visits the declared pattern's defaults and computed keys; its names declare, so they refer to nothing. @param {Node} node */
  #pattern(node) {
    switch (node.type) {
      case "Identifier":
        this.#checkName(node);
        break;
      case "ObjectPattern":
        for (const property of node.properties) {
          if (property.type === "RestElement") {
            this.#pattern(property.argument);
          } else {
            if (property.computed) this.visit(property.key);
            this.#pattern(property.value);
          }
        }
        break;
      case "ArrayPattern":
        for (const element of node.elements) if (element !== null) this.#pattern(element);
        break;
      case "AssignmentPattern":
        this.#pattern(node.left);
        this.visit(node.right);
        break;
      case "RestElement":
        this.#pattern(node.argument);
        break;
    }
  }

  /** A for statement of any kind. @param {Node} node @param {number} [outer] where it starts, labels included @param {string[]} [labels] its own */
  #loop(node, outer = node.start, labels = []) {
    const scope = this.scope;
    this.scope = new Scope(scope, this.imports);
    const head = node.type === "ForStatement" ? node.init : node.left;
    if (head && head.type === "VariableDeclaration" && head.kind !== "var") this.scope.declareLexical([head]);
    if (node.type === "ForStatement") this.#plainLoop(node, outer);
    else if (node.await) this.#awaitLoop(node, outer, labels);
    else this.#eachLoop(node);
    this.scope = scope;
  }

  /** @param {Node} node @param {number} outer */
  #plainLoop(node, outer) {
    const { init, test, update, body } = node;
    const using = init && isUsing(init);
    if (using) this.edits.before(outer, `{const ${this.disposal}=${this.hooks}.scope();try{`);
    for (const part of [init, test, update, body]) if (part) this.visit(part);
    if (using) this.edits.after(node.end, this.#disposalEnd(init.kind === "await using") + "}");
  }

  /** for-in and for-of. @param {Node} node */
  #eachLoop(node) {
    const { left, right, body } = node;
    if (isUsing(left)) {
      const { id } = left.declarations[0];
      this.#checkName(id);
      this.edits.replaceLines(left.start, id.end, `const ${this.resource}`);
      this.visit(right);
      this.edits.before(body.start, `{const ${this.disposal}=${this.hooks}.scope();try{const ${id.name}=${this.disposal}.${
        left.kind === "using" ? "add" : "addAsync"}(${this.resource});`);
      this.visit(body);
      this.edits.after(body.end, this.#disposalEnd(left.kind === "await using") + "}");
      return;
    }
    if (left.type === "VariableDeclaration" && left.kind === "var" && this.frame.kind === "forAwait") {
      this.#movedVar(left, true);
      this.#pattern(left.declarations[0].id);
    } else {
      this.visit(left);
    }
    this.visit(right);
    this.visit(body);
  }

  /** `for await`. @param {Node} node @param {number} outer @param {string[]} labels */
  #awaitLoop(node, outer, labels) {
    const top = this.frame.kind === "module";
    const frame = this.frame;
    if (top) {
      // An async arrow function around it: `yield` could not take the loop's own awaits.
      this.usesAwait = true;
      this.frame = newFrame("forAwait", true, false, true);
      for (const label of labels) this.frame.labels.add(label);
      this.edits.before(outer, "yield(async()=>{");
    }
    this.frame.keeps = true;
    this.edits.before(outer, `{${top ? "let " : ""}${this.kept}=${this.hooks}.get();`);
    this.edits.before(node.body.start, `{${this.#restore()}`);
    this.frame.awaits += 1;
    this.#eachLoop(node);
    this.edits.after(node.body.end, "}");
    this.edits.after(node.end, `${this.#restore()}}`);
    if (top) {
      this.edits.after(node.end, "})();");
      this.frame = frame;
    }
  }

  /** @param {Node} node */
  #labelled(node) {
    const labels = [];
    let body = node;
    while (body.type === "LabeledStatement") {
      labels.push(body.label.name);
      this.frame.labels.add(body.label.name);
      body = body.body;
    }
    if (isLoop(body)) this.#loop(body, node.start, labels);
    else this.visit(body);
  }

  /** break and continue. @param {Node} node */
  #jump(node) {
    if (node.label && this.frame.kind === "forAwait" && !this.frame.labels.has(node.label.name))
      throw new SourceError(node.start, `a top-level "for await" cannot be left for the label "${node.label.name}" outside of it`);
  }

  /** @param {Node} node */
  #try(node) {
    const { frame } = this;
    const before = frame.awaits;
    this.visit(node.block);
    if (node.handler) {
      const { handler } = node;
      if (this.#restores() && frame.async && frame.block && frame.awaits > before)
        this.edits.first(handler.body.start + 1, this.#restore());
      const outer = this.scope;
      this.scope = new Scope(outer, this.imports);
      if (handler.param) {
        this.scope.declarePattern(handler.param);
        this.#pattern(handler.param);
      }
      this.visit(handler.body);
      this.scope = outer;
    }
    if (node.finalizer) {
      if (this.#restores() && frame.async && frame.block && frame.awaits > before)
        this.edits.first(node.finalizer.start + 1, this.#restore());
      this.visit(node.finalizer);
    }
  }

  /** @param {Node} node */
  #switch(node) {
    this.visit(node.discriminant);
    const outer = this.scope;
    this.scope = new Scope(outer, this.imports);
    for (const part of node.cases) this.scope.declareLexical(part.consequent);
    for (const part of node.cases) {
      for (const statement of part.consequent)
        if (isUsing(statement)) throw new SourceError(statement.start, '"using" cannot stand directly in a case: put braces around it');
      if (part.test) this.visit(part.test);
      this.statements(part.consequent);
    }
    this.scope = outer;
  }

  // --- functions and classes

  /** @param {Node} node */
  #function(node) {
    const { frame, scope, argumentsFree } = this;
    const arrow = node.type === "ArrowFunctionExpression";
    if (node.id) this.#checkName(node.id);
    this.frame = newFrame("function", node.async, node.generator, node.body.type === "BlockStatement");
    if (!arrow) this.argumentsFree = false;
    this.scope = new Scope(scope, this.imports);
    if (node.type === "FunctionExpression" && node.id) this.scope.declare(node.id.name);
    for (const parameter of node.params) this.scope.declarePattern(parameter);
    for (const parameter of node.params) this.#pattern(parameter);
    if (this.frame.block) {
      const { body, start, end } = node.body;
      this.scope = new Scope(this.scope, this.imports);
      this.scope.declareVars(body);
      this.scope.declareLexical(body);
      this.#body(body, start + 1, end - 1);
      if (this.frame.keeps)
        this.edits.outermost(this.#directivesEnd(body, start + 1), `;let ${this.kept}=${this.hooks}.get();`);
    } else {
      this.visit(node.body);
    }
    this.frame = frame;
    this.scope = scope;
    this.argumentsFree = argumentsFree;
  }

  /** @param {Node} node */
  #class(node) {
    const { scope } = this;
    this.scope = new Scope(scope, this.imports);
    if (node.id) {
      this.#checkName(node.id);
      this.scope.declare(node.id.name);
    }
    if (node.superClass) {
      this.visit(node.superClass);
      const isMade = node.body.body.some((/** @type {Node} */ element) => element.type === "MethodDefinition" && element.kind === "constructor");
      // The engine's own would ask Array.prototype for its iterator, which the language does not.
      if (!isMade) this.edits.outermost(node.body.start + 1, "constructor(){super(...arguments)}");
    }
    for (const element of node.body.body) this.#element(element);
    this.scope = scope;
  }

  /** @param {Node} node */
  #element(node) {
    if (node.computed) this.visit(node.key);
    if (node.type === "MethodDefinition") {
      this.#function(node.value);
      return;
    }
    const { frame, scope, argumentsFree } = this;
    this.frame = newFrame("function", false, false, true);
    this.argumentsFree = false;
    if (node.type === "StaticBlock") {
      this.scope = new Scope(scope, this.imports);
      this.scope.declareVars(node.body);
      this.scope.declareLexical(node.body);
      this.#body(node.body, this.source.indexOf("{", node.start) + 1, node.end - 1);
    } else if (node.value) {
      this.visit(node.value);
    }
    this.frame = frame;
    this.scope = scope;
    this.argumentsFree = argumentsFree;
  }

  // --- expressions

  /** @param {Node} node */
  #checkName(node) {
    if (node.name.startsWith(this.prefix)) throw new PrefixTaken();
  }

  /** What an identifier that is no import of ours is replaced with; null: nothing. @param {Node} node @returns {string | null} */
  #reading(node) {
    this.#checkName(node);
    if (node.name === "arguments" && this.argumentsFree) return `${this.prefix}arguments`;
    const read = this.imports.get(node.name);
    return read === undefined || this.scope.hides(node.name) ? null : read;
  }

  /** @param {Node} node */
  #reference(node) {
    const read = this.#reading(node);
    if (read !== null) this.edits.replace(node.start, node.end, read);
  }

  /** The function of a call: an import must not become the call's `this`. @param {Node} node */
  #callee(node) {
    if (node.type !== "Identifier") {
      this.visit(node);
      return;
    }
    const read = this.#reading(node);
    if (read === null) return;
    this.edits.replace(node.start, node.end, read.includes(".") || read.includes("[") ? `(0,${read})` : read);
    this.opened.add(node.start);
  }

  /** Of an object or of an assigned-to pattern. @param {Node} node */
  #property(node) {
    if (node.computed) this.visit(node.key);
    if (!node.shorthand) {
      this.visit(node.value);
      return;
    }
    const name = node.value.type === "AssignmentPattern" ? node.value.left : node.value;
    const read = this.#reading(name);
    if (read !== null) this.edits.replace(name.start, name.end, `${name.name}: ${read}`);
    if (node.value.type === "AssignmentPattern") this.visit(node.value.right);
  }

  /** @param {Node} node */
  #await(node) {
    if (this.frame.kind === "module") {
      this.usesAwait = true;
      this.opened.add(node.start);
      this.edits.replace(node.start, node.start + "await".length, "(yield(");
      this.visit(node.argument);
      this.edits.after(node.end, "))");
      return;
    }
    this.#restoring(node, node.argument);
  }

  /** An expression at which an async function stops and goes on later. @param {Node} node @param {Node | null} argument */
  #restoring(node, argument) {
    this.frame.awaits += 1;
    const keep = this.frame.block ? `${this.kept}=` : "";
    this.frame.keeps ||= this.frame.block;
    this.edits.before(node.start, `${this.hooks}.after(${keep}${this.hooks}.get(),`);
    if (argument) this.visit(argument);
    this.edits.after(node.end, ")");
  }

  /** @param {Node} node */
  visit(node) {
    switch (node.type) {
      case "Identifier": this.#reference(node); return;
      case "MemberExpression":
        this.visit(node.object);
        if (node.computed) this.visit(node.property);
        return;
      case "CallExpression":
        this.#callee(node.callee);
        for (const argument of node.arguments) this.visit(argument);
        return;
      case "TaggedTemplateExpression":
        this.#callee(node.tag);
        this.visit(node.quasi);
        return;
      case "Property": this.#property(node); return;
      case "FunctionDeclaration":
      case "FunctionExpression":
      case "ArrowFunctionExpression": this.#function(node); return;
      case "ClassDeclaration":
      case "ClassExpression": this.#class(node); return;
      case "AwaitExpression": this.#await(node); return;
      case "YieldExpression":
        if (this.frame.async && this.frame.generator) this.#restoring(node, node.argument);
        else if (node.argument) this.visit(node.argument);
        return;
      case "ImportExpression":
        this.edits.replace(node.start, node.start + "import".length, this.imported);
        this.visit(node.source);
        if (node.options) this.visit(node.options);
        return;
      case "MetaProperty":
        if (node.meta.name === "import") this.edits.replaceLines(node.start, node.end, this.meta);
        return;
      case "BlockStatement": this.#block(node); return;
      case "VariableDeclaration": this.#declaration(node); return;
      case "ForStatement":
      case "ForInStatement":
      case "ForOfStatement": this.#loop(node); return;
      case "LabeledStatement": this.#labelled(node); return;
      case "BreakStatement":
      case "ContinueStatement": this.#jump(node); return;
      case "TryStatement": this.#try(node); return;
      case "SwitchStatement": this.#switch(node); return;
    }
    const children = CHILDREN[node.type];
    if (children === undefined) throw new SourceError(node.start, `the syntax "${node.type}" is not supported here`);
    for (const key of children) {
      const child = node[key];
      if (Array.isArray(child)) {
        for (const one of child) if (one) this.visit(one);
      } else if (child) {
        this.visit(child);
      }
    }
  }
}

/** Nodes that only hold others. @type {Record<string, string[]>} */
const CHILDREN = {
  __proto__: /** @type {any} */ (null),
  ArrayExpression: ["elements"], ArrayPattern: ["elements"], AssignmentExpression: ["left", "right"],
  AssignmentPattern: ["left", "right"], BinaryExpression: ["left", "right"], ChainExpression: ["expression"],
  ConditionalExpression: ["test", "consequent", "alternate"], DebuggerStatement: [], DoWhileStatement: ["body", "test"],
  EmptyStatement: [], ExpressionStatement: ["expression"], IfStatement: ["test", "consequent", "alternate"],
  Literal: [], LogicalExpression: ["left", "right"], NewExpression: ["callee", "arguments"], ObjectExpression: ["properties"],
  ObjectPattern: ["properties"], ParenthesizedExpression: ["expression"], PrivateIdentifier: [], RestElement: ["argument"],
  ReturnStatement: ["argument"], SequenceExpression: ["expressions"], SpreadElement: ["argument"], Super: [],
  TemplateElement: [], TemplateLiteral: ["quasis", "expressions"], ThisExpression: [], ThrowStatement: ["argument"],
  UnaryExpression: ["argument"], UpdateExpression: ["argument"], WhileStatement: ["test", "body"], WithStatement: ["object", "body"],
};

/** @param {Node} node */
function isLoop(node) {
  return node.type === "ForStatement" || node.type === "ForInStatement" || node.type === "ForOfStatement";
}

/** @param {Node} node */
function isUsing(node) {
  return node.type === "VariableDeclaration" && (node.kind === "using" || node.kind === "await using");
}
