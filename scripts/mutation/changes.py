"""Small changes of Python code: another comparison, sign, constant or index, or a line dropped."""

import ast
import builtins
import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
SIGNS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
MESSAGES = ("warn", "warning", "Error", "Warning", "debug")  #: ends of names called
PICTURES = ("__repr__", "__str__", "__getattr__", "_repr_html_")  #: functions left as they are
COMPILERS = ("njit", "compiled", "intrinsic")  #: decorators of what coverage cannot see


@dataclass(frozen=True)
class Change:
    """One small change of a module."""

    path: Path  #: of the module, from the root on
    scope: str  #: the function or class that it lies in
    kind: str
    line: int  #: where it begins
    span: range | None  #: the lines of its statement; None if coverage cannot see them
    start: int  #: the bytes that it replaces
    stop: int
    new: str

    def applied(self, text: str) -> str:
        """Return the module's text with the change."""
        code = text.encode()
        return (code[: self.start] + self.new.encode() + code[self.stop :]).decode()

    def shown(self, text: str) -> str:
        """Return the first line that differs, before and after the change."""
        pairs = zip(text.splitlines(), self.applied(text).splitlines(), strict=False)
        before, after = next((old, new) for old, new in pairs if old != new)
        return f"    - {before.strip()}\n    + {after.strip()}"

    def is_real(self, text: str) -> bool:
        """Return whether the changed text is a program, and another one."""
        try:
            return ast.dump(ast.parse(self.applied(text))) != ast.dump(ast.parse(text))
        except SyntaxError:
            return False


def drawn(changes: Iterable[Change], texts: dict[Path, str], seed: int) -> Iterator[Change]:
    """Yield changes in random order, at most one a line.

    The order hangs on the lines' own text, so that it stays when others are edited.
    """
    lines: dict[tuple[Path, int], list[Change]] = {}
    for change in changes:
        lines.setdefault((change.path, change.line), []).append(change)

    def place(where: tuple[Path, int]) -> bytes:
        path, line = where
        text = texts[path].splitlines()[line - 1].strip()
        return _hash(seed, path, lines[where][0].scope, text)

    for where in sorted(lines, key=place):
        text = texts[where[0]]
        by_chance = sorted(
            lines[where], key=lambda each: _hash(seed, place(where), each.kind, each.new)
        )
        real = (change for change in by_chance if change.is_real(text))
        yield from [change for change in [next(real, None)] if change is not None]


def _hash(*parts: object) -> bytes:
    return hashlib.sha256(repr([str(part) for part in parts]).encode()).digest()


class Changes(ast.NodeVisitor):
    """All changes of a module, in `found`."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.code = text.encode()
        self.starts = [0]
        for line in self.code.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.found: list[Change] = []
        self.scopes: list[str] = []
        self.span: range | None = None
        self.bound: set[str] = set()  # names of the function that have a value already
        self.visit(ast.parse(text))

    # Where

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def _stop(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def _add(self, kind: str, start: int, stop: int, new: str) -> None:
        scope = ".".join(self.scopes)
        line = bisect_right(self.starts, start)
        self.found.append(Change(self.path, scope, kind, line, self.span, start, stop, new))

    def _replace(self, kind: str, node: ast.expr | ast.stmt, new: str) -> None:
        self._add(kind, self._start(node), self._stop(node), new)

    def _replace_between(
        self, kind: str, left: ast.expr, right: ast.expr, old: str, news: Sequence[str]
    ) -> None:
        """Replace the operator between two operands."""
        start = self.code.index(old.encode(), self._stop(left), self._start(right))
        for new in news:
            self._add(kind, start, start + len(old.encode()), new)

    @contextmanager
    def _inside(self, name: str, span: range | None) -> Iterator[None]:
        before = self.span
        self.scopes.append(name)
        self.span = span
        yield
        self.span = before
        self.scopes.pop()

    # Definitions

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Visit the defaults and the body, but neither decorators nor types."""
        if node.name in PICTURES:
            return
        is_seen = not any(ast.unparse(each).startswith(COMPILERS) for each in node.decorator_list)
        last = node.end_lineno or node.lineno
        with self._inside(node.name, range(node.body[0].lineno, last + 1) if is_seen else None):
            defaults = [*node.args.defaults, *node.args.kw_defaults]
            for default in defaults:
                if default is not None:
                    self.visit(default)
            before = self.bound
            self.bound = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
            for statement in node.body:
                self._statement(statement, is_seen=is_seen)
            self.bound = before

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Visit what runs when the class is made, and its methods."""
        with self._inside(node.name, None):
            for statement in node.body:
                self._statement(statement, is_seen=False)

    def visit_Module(self, node: ast.Module) -> None:
        """Visit all statements."""
        for statement in node.body:
            self._statement(statement, is_seen=False)

    # Statements

    def _statement(self, node: ast.stmt, *, is_seen: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            self.visit(node)
            return
        if isinstance(node, ast.Assert | ast.Import | ast.ImportFrom) or _is_typing(node):
            return
        inner = [part for part in ast.iter_child_nodes(node) if _holds_statements(part)]
        first = min((_first_line(part) for part in inner), default=(node.end_lineno or 0) + 1)
        before = self.span
        self.span = range(node.lineno, max(first, node.lineno + 1)) if is_seen else None
        if is_seen:
            self._drop(node)
        if isinstance(node, ast.If):
            self._negate(node.test)
        if isinstance(node, ast.AugAssign) and type(node.op) in SIGNS:
            old, new = SIGNS[type(node.op)]
            self._replace_between("sign", node.target, node.value, old, [new])
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.stmt):
                self._statement(part, is_seen=is_seen)
            elif _holds_statements(part):
                self._part(part, is_seen=is_seen)
            elif not (isinstance(node, ast.AnnAssign) and part is node.annotation):
                self.visit(part)
        self.span = before
        self.bound |= {
            each.id
            for each in ast.walk(node)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }

    def _part(self, node: ast.AST, *, is_seen: bool) -> None:
        """Visit a clause of a try or match statement."""
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.stmt):
                self._statement(part, is_seen=is_seen)
            elif isinstance(node, ast.match_case):
                self.visit(part)

    def _drop(self, node: ast.stmt) -> None:
        """Drop a statement without which the function still runs."""
        match node:
            case ast.Expr(value=ast.Call() as call):
                can_go = not _is_message(call)
            case ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
                can_go = True
            case ast.Assign(targets=[ast.Subscript()]):
                can_go = True
            case ast.Assign(targets=[ast.Attribute()]):
                can_go = "__init__" not in self.scopes
            case ast.Assign(targets=[ast.Name(id=name)]):
                can_go = name in self.bound
            case _:
                can_go = False
        if can_go:
            self._replace("dropped line", node, "pass")

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave messages alone."""

    def visit_Call(self, node: ast.Call) -> None:
        """Leave messages alone."""
        if not _is_message(node):
            self.generic_visit(node)

    # Expressions

    def visit_keyword(self, node: ast.keyword) -> None:
        """Leave `zip(..., strict=True)` alone, which is an assertion."""
        if node.arg != "strict":
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Compare otherwise."""
        operands = [node.left, *node.comparators]
        for left, right, operator in zip(operands, operands[1:], node.ops, strict=False):
            old, news = COMPARISONS[type(operator)]
            self._replace_between("comparison", left, right, old, news)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Swap `and` and `or`."""
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._replace_between("comparison", left, right, old, [new])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Swap signs of numbers."""
        sides = (node.left, node.right)
        is_type = isinstance(node.op, ast.BitOr) and any(map(_is_type, sides))
        is_text = any(isinstance(each, ast.JoinedStr) or _is_string(each) for each in sides)
        if type(node.op) in SIGNS and not is_type and not is_text:
            old, new = SIGNS[type(node.op)]
            self._replace_between("sign", node.left, node.right, old, [new])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Drop `-`, `~` or `not`."""
        kind = "comparison" if isinstance(node.op, ast.Not) else "sign"
        self._add(kind, self._start(node), self._start(node.operand), "")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Turn the condition round."""
        self._negate(node.test)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Change the bounds of slices, too."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        self.visit(node.value)
        for part in parts:
            if isinstance(part, ast.Slice):
                self._slice(part)
            else:
                self.visit(part)

    def _slice(self, node: ast.Slice) -> None:
        """Drop a bound, or change it."""
        for bound in (node.lower, node.upper):
            if bound is not None:
                self._replace("index", bound, "")
                self.visit(bound)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Change a number or a truth value."""
        match node.value:
            case bool():
                self._replace("constant", node, str(not node.value))
            case int():
                self._replace("constant", node, str(node.value + 1))
                if node.value:
                    self._replace("constant", node, str(node.value - 1))
            case float():
                self._replace("constant", node, repr(2 * node.value or 1.0))

    def _negate(self, test: ast.expr) -> None:
        """Turn round a condition that is no comparison."""
        if isinstance(test, ast.Name | ast.Attribute | ast.Call):
            self._add("comparison", self._start(test), self._start(test), "not ")


def _holds_statements(part: ast.AST) -> bool:
    return isinstance(part, ast.stmt | ast.ExceptHandler | ast.match_case)


def _first_line(part: ast.AST) -> int:
    """Return the first line of a statement or a clause."""
    if isinstance(part, ast.match_case):
        return part.pattern.lineno
    assert isinstance(part, ast.stmt | ast.ExceptHandler)
    return part.lineno


def _is_typing(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _is_type(node: ast.expr) -> bool:
    """Return whether an operand is a type, by its name."""
    if isinstance(node, ast.BinOp):
        return _is_type(node.left) or _is_type(node.right)
    name = ast.unparse(node).partition("[")[0].rpartition(".")[2]
    return name in dir(builtins) or (name[:1].isupper() and not name.isupper())


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_message(call: ast.Call) -> bool:
    """Return whether a call makes an error, or tells the user something."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    return name.endswith(MESSAGES)
