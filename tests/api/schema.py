"""docs/openapi.yaml as the tests use it: finding an operation, and judging a value by a schema (the part of JSON Schema that
the file uses; an unknown keyword is an error, so that nothing is silently left unchecked)."""
import re

import yaml

ANNOTATIONS = {"description", "default", "contentEncoding", "title"}


class Mismatch(AssertionError):
    pass


class Description:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.doc = yaml.safe_load(f)

    def resolve(self, node):
        while isinstance(node, dict) and "$ref" in node:
            target = self.doc
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = target
        return node

    def operations(self):
        """(METHOD, path pattern, operation) of each."""
        for path, item in self.doc["paths"].items():
            for method, op in item.items():
                if method in ("get", "put", "post", "delete", "patch"):
                    yield method.upper(), path, op

    def parameters(self, path, op):
        both = self.doc["paths"][path].get("parameters", []) + op.get("parameters", [])
        return [self.resolve(p) for p in both]

    def find(self, method, path):
        """The operation that serves a concrete path (without query); literal segments win."""
        best = None
        for m, pattern, op in self.operations():
            expr = re.sub(r"\{[^/]*\}", "[^/]+", pattern)
            if m == method and re.fullmatch(expr, path):
                if best is None or pattern.count("{") < best[0].count("{"):
                    best = (pattern, op)
        return best

    def check_answer(self, method, path, status, content_type, value):
        """An answer of the server: is its status declared, its type, its body?"""
        found = self.find(method, path)
        if not found:
            if status not in (403, 404, 405, 400):
                raise Mismatch(f"{method} {path}: undeclared operation answered {status}")
            declared = self.doc["components"]["responses"]["Error"]
        else:
            responses = found[1]["responses"]
            declared = self.resolve(responses.get(str(status)) or responses["default"])
            if status < 400 and str(status) not in responses:
                raise Mismatch(f"{method} {path}: status {status} is not declared")
        content = declared.get("content")
        if not content:
            if value not in (b"", None):
                raise Mismatch(f"{method} {path}: {status} has a body: {value!r}")
            return
        if content_type not in content:
            raise Mismatch(f"{method} {path}: {status} has type {content_type}, declared are {list(content)}")
        if content_type == "application/json":
            self.check(value, content[content_type]["schema"], f"{method} {path} {status}")
        elif content_type == "application/x-ndjson" and isinstance(value, list):
            for line in value:
                self.check(line, content[content_type]["schema"], f"{method} {path} line")

    def check(self, value, schema, at="value"):
        siblings = {k: v for k, v in schema.items() if k != "$ref"}
        if "$ref" in schema:
            self.check(value, self.resolve({"$ref": schema["$ref"]}), at)
        for word, arg in siblings.items():
            if word in ANNOTATIONS:
                continue
            judge = getattr(self, "check_" + word, None)
            if judge is None:
                raise Mismatch(f"{at}: the tests do not know the schema keyword {word}")
            judge(value, arg, siblings, at)

    def check_type(self, value, arg, schema, at):
        types = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
        if not isinstance(value, types[arg]) or (arg in ("integer", "number") and isinstance(value, bool)):
            raise Mismatch(f"{at}: expected {arg}, got {value!r}")

    def check_required(self, value, arg, schema, at):
        for key in arg:
            if key not in value:
                raise Mismatch(f"{at}: {key} is missing in {value!r}")

    def check_properties(self, value, arg, schema, at):
        if isinstance(value, dict):
            for key, sub in arg.items():
                if key in value:
                    self.check(value[key], sub, f"{at}.{key}")

    def check_additionalProperties(self, value, arg, schema, at):
        if not isinstance(value, dict):
            return
        for key in value.keys() - schema.get("properties", {}).keys():
            if arg is False:
                raise Mismatch(f"{at}: undeclared {key} in {value!r}")
            self.check(value[key], arg, f"{at}.{key}")

    def check_propertyNames(self, value, arg, schema, at):
        for key in value:
            self.check(key, arg, f"{at} key {key}")

    def check_items(self, value, arg, schema, at):
        for i, item in enumerate(value if isinstance(value, list) else []):
            self.check(item, arg, f"{at}[{i}]")

    def check_enum(self, value, arg, schema, at):
        if value not in arg:
            raise Mismatch(f"{at}: {value!r} is none of {arg}")

    def check_const(self, value, arg, schema, at):
        if value != arg:
            raise Mismatch(f"{at}: {value!r} is not {arg!r}")

    def check_pattern(self, value, arg, schema, at):
        if not re.search(arg, value):
            raise Mismatch(f"{at}: {value!r} does not match {arg}")

    def check_oneOf(self, value, arg, schema, at):
        fits, why = 0, []
        for sub in arg:
            try:
                self.check(value, sub, at)
                fits += 1
            except Mismatch as e:
                why.append(str(e))
        if fits != 1:
            raise Mismatch(f"{at}: {value!r} fits {fits} of {len(arg)}: {why}")

    def _bound(self, ok, at, value, word, arg):
        if not ok:
            raise Mismatch(f"{at}: {value!r} breaks {word} {arg}")

    def check_minimum(self, value, arg, schema, at):
        self._bound(value >= arg, at, value, "minimum", arg)

    def check_maximum(self, value, arg, schema, at):
        self._bound(value <= arg, at, value, "maximum", arg)

    def check_minLength(self, value, arg, schema, at):
        self._bound(len(value) >= arg, at, value, "minLength", arg)

    def check_maxLength(self, value, arg, schema, at):
        self._bound(len(value) <= arg, at, value, "maxLength", arg)

    def check_minItems(self, value, arg, schema, at):
        self._bound(len(value) >= arg, at, value, "minItems", arg)

    def check_maxItems(self, value, arg, schema, at):
        self._bound(len(value) <= arg, at, value, "maxItems", arg)

    def check_maxProperties(self, value, arg, schema, at):
        self._bound(len(value) <= arg, at, value, "maxProperties", arg)
