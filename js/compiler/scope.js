/**
 * Which names a scope declares. Only names that are imported matter: everything else resolves by itself, so the sets hold
 * nothing but names that hide an import, and most scopes have none.
 */

/** @typedef {any} Node an ESTree node of acorn's */

export class Scope {
  /** @param {Scope | null} parent @param {ReadonlySet<string> | ReadonlyMap<string, any>} relevant names worth keeping */
  constructor(parent, relevant) {
    this.parent = parent;
    this.relevant = relevant;
    /** @type {Set<string> | null} */
    this.names = null;
  }

  /** @param {string} name */
  declare(name) {
    if (this.relevant.has(name)) (this.names ??= new Set()).add(name);
  }

  /** True when a scope between here and the module declares the name. @param {string} name */
  hides(name) {
    for (let scope = /** @type {Scope | null} */ (this); scope !== null; scope = scope.parent)
      if (scope.names !== null && scope.names.has(name)) return true;
    return false;
  }

  /** Every name that a binding pattern declares. @param {Node} pattern */
  declarePattern(pattern) {
    patternNames(pattern, (name) => this.declare(name));
  }

  /** let, const, class, using and function declarations of a statement list. @param {Node[]} list */
  declareLexical(list) {
    if (this.relevant.size === 0) return;
    for (let node of list) {
      while (node.type === "LabeledStatement") node = node.body;
      if (node.type === "VariableDeclaration" && node.kind !== "var")
        for (const declarator of node.declarations) this.declarePattern(declarator.id);
      else if ((node.type === "FunctionDeclaration" || node.type === "ClassDeclaration") && node.id) this.declare(node.id.name);
    }
  }

  /** `var` declarations below a statement list, functions not entered. @param {Node[]} list */
  declareVars(list) {
    if (this.relevant.size === 0) return;
    for (const node of list) this.#vars(node);
  }

  /** @param {Node | null | undefined} node a statement */
  #vars(node) {
    if (!node) return;
    switch (node.type) {
      case "VariableDeclaration":
        if (node.kind === "var") for (const declarator of node.declarations) this.declarePattern(declarator.id);
        break;
      case "BlockStatement":
        this.declareVars(node.body);
        break;
      case "IfStatement":
        this.#vars(node.consequent);
        this.#vars(node.alternate);
        break;
      case "ForStatement":
        this.#vars(node.init);
        this.#vars(node.body);
        break;
      case "ForInStatement":
      case "ForOfStatement":
        this.#vars(node.left);
        this.#vars(node.body);
        break;
      case "WhileStatement":
      case "DoWhileStatement":
      case "LabeledStatement":
      case "WithStatement":
        this.#vars(node.body);
        break;
      case "TryStatement":
        this.#vars(node.block);
        if (node.handler) this.#vars(node.handler.body);
        this.#vars(node.finalizer);
        break;
      case "SwitchStatement":
        for (const part of node.cases) this.declareVars(part.consequent);
        break;
    }
  }
}

/** @param {Node | null} pattern @param {(name: string, node: Node) => void} found */
export function patternNames(pattern, found) {
  if (pattern === null) return;
  switch (pattern.type) {
    case "Identifier":
      found(pattern.name, pattern);
      break;
    case "ObjectPattern":
      for (const property of pattern.properties)
        patternNames(property.type === "RestElement" ? property.argument : property.value, found);
      break;
    case "ArrayPattern":
      for (const element of pattern.elements) patternNames(element, found);
      break;
    case "AssignmentPattern":
      patternNames(pattern.left, found);
      break;
    case "RestElement":
      patternNames(pattern.argument, found);
      break;
  }
}
