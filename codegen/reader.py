"""Generates the ``_read`` method of a struct.

Locals of the method: ``buf`` and ``limit`` (its length), ``pos``, ``n`` (a length from the wire), ``end``
(the end of the current value).
"""

from __future__ import annotations

from itertools import groupby

from codegen.layout import (
    absence,
    condition,
    default_value,
    ever_nullable,
    is_fixed,
    present_fields,
    smallest_element,
)
from codegen.notation import FIXED_FORMATS, FIXED_SIZES, Field, MessageSpec, StructSpec, Versions
from codegen.pycode import Code


class Reader:
    def __init__(self, code: Code, message: MessageSpec, struct: StructSpec) -> None:
        self.code = code
        self.message = message
        self.struct = struct
        self.limit = "limit"

    def emit(self) -> None:
        code, struct = self.code, self.struct
        fields = present_fields(struct)
        code.line("@classmethod")
        head = "def _read(cls, buf: ReadBuffer, pos: int, limit: int, version: int) -> tuple[Self, int]:"
        with code.block(head):
            code.line("self = cls.__new__(cls)")
            plain = [field for field in fields if field.tag is None]
            tagged = [field for field in fields if field.tag is not None]
            for present, group in groupby(plain, key=lambda field: field.versions.within(struct.possible)):
                self._emit_group(list(group), present)
            for field in tagged:
                code.line(f"self.{field.attribute} = {default_value(field, struct.possible)}")
            code.line("self.unknown_tags = None")
            flexible = Versions(self.message.flexible_from, struct.possible.high).within(struct.possible)
            if not flexible.empty:
                with code.branch(condition(flexible, struct.possible)):
                    self._emit_tags(tagged, flexible)
            code.line("return self, pos")

    def _emit_group(self, fields: list[Field], present: Versions) -> None:
        code = self.code
        test = condition(present, self.struct.possible)
        with code.branch(test):
            for fixed, run in groupby(fields, key=is_fixed):
                if fixed:
                    self._emit_fixed(list(run))
                else:
                    for field in run:
                        self._emit_variable(field, present)
        if test:
            with code.block("else:"):
                for field in fields:
                    code.line(f"self.{field.attribute} = {default_value(field, self.struct.possible)}")

    def _emit_fixed(self, fields: list[Field]) -> None:
        formats = "".join(FIXED_FORMATS[field.type] for field in fields)
        size = sum(FIXED_SIZES[field.type] for field in fields)
        targets = ", ".join(f"self.{field.attribute}" for field in fields)
        if len(fields) == 1:
            targets = f"({targets},)"
        self.code.line(f"{targets} = {self.code.unpack(formats)}(buf, pos)")
        self.code.line(f"pos += {size}")

    def _emit_variable(self, field: Field, present: Versions) -> None:
        if field.is_struct:
            self._emit_struct(field, present)
        elif field.is_array:
            self._emit_array(field, present)
        else:
            self._emit_bytes(field, present)

    def _emit_length(self, field: Field, present: Versions) -> None:
        """Read the length of a value into ``n``; a negative one is null."""
        code = self.code
        formats, size = ("h", 2) if field.type == "string" else ("i", 4)
        flexible_from = self.message.flexible_from if field.compact else present.high + 1
        if flexible_from <= present.low:
            self._emit_compact_length()
        elif flexible_from > present.high:
            code.line(f"n = {code.unpack(formats)}(buf, pos)[0]")
            code.line(f"pos += {size}")
        else:
            with code.block(f"if version >= {flexible_from}:"):
                self._emit_compact_length()
            with code.block("else:"):
                code.line(f"n = {code.unpack(formats)}(buf, pos)[0]")
                code.line(f"pos += {size}")

    def _emit_compact_length(self) -> None:
        code = self.code
        code.line("n = buf[pos] - 1")
        code.line("pos += 1")
        with code.block("if n > 126:"):
            code.line(f"n, pos = {code.use('uvarint_tail')}(buf, pos, n + 1)")
            code.line("n -= 1")

    def _null_test(self, field: Field, present: Versions) -> str | None:
        """The test for a legal null in ``n``; None if null is never legal."""
        if not ever_nullable(field, present):
            return None
        test = condition(field.nullable.within(present), present)
        return f"n < 0 and {test}" if test else "n < 0"

    def _emit_bytes(self, field: Field, present: Versions) -> None:
        code, limit = self.code, self.limit
        self._emit_length(field, present)
        target = f"self.{field.attribute}"
        null_test = self._null_test(field, present)
        if null_test is not None:
            with code.block(f"if {null_test}:"):
                code.line(f"{target} = None")
            with code.block("else:"):
                self._emit_slice(field, target, limit, checks_null=null_test != "n < 0")
        else:
            self._emit_slice(field, target, limit, checks_null=True)

    def _emit_slice(self, field: Field, target: str, limit: str, checks_null: bool) -> None:
        code = self.code
        code.line("end = pos + n")
        tests = ["n < 0"] if checks_null else []
        tests.append(f"end > {limit}")
        if field.element == "string" and self.message.flexible_from <= self.message.versions.high:
            tests.append(f"n > {code.use('STRING_BYTES_MAX')}")
        with code.block(f"if {' or '.join(tests)}:"):
            code.line(f"raise {code.use('length_error')}({self._label(field)}, n, {limit} - pos)")
        value = {
            "string": 'str(buf[pos:end], "utf-8")',
            "bytes": "bytes(buf[pos:end])",
            "records": "memoryview(buf)[pos:end]",
        }[field.element]
        code.line(f"{target} = {value}" if not target.endswith("(") else f"{target}{value})")
        code.line("pos = end")

    def _emit_array(self, field: Field, present: Versions) -> None:
        code = self.code
        self._emit_length(field, present)
        null_test = self._null_test(field, present)
        if null_test is not None:
            with code.block(f"if {null_test}:"):
                code.line(f"self.{field.attribute} = None")
            with code.block("else:"):
                self._emit_elements(field, present, checks_null=null_test != "n < 0")
        else:
            self._emit_elements(field, present, checks_null=True)

    def _emit_elements(self, field: Field, present: Versions, checks_null: bool) -> None:
        code, limit = self.code, self.limit
        smallest = smallest_element(self.message, field)
        assert smallest > 0, f"{field.name}: elements without bytes cannot be bounded"
        total = "n" if smallest == 1 else f"n * {smallest}"
        null = "n < 0 or " if checks_null else ""
        with code.block(f"if {null}{total} > {limit} - pos:"):
            code.line(f"raise {code.use('length_error')}({self._label(field)}, n, {limit} - pos)")
        if self.message.kind == "request":
            # Only requests come from untrusted clients.
            code.line(f"{code.use('take_elements')}(n)")
        target = f"self.{field.attribute}"
        if field.struct is not None:
            items = f"{field.attribute}_items"
            code.line(f"{items}: list[{field.struct}] = []")
            with code.block("for _ in range(n):"):
                item = f"{field.attribute}_item"
                code.line(f"{item}, pos = {field.struct}._read(buf, pos, {limit}, version)")
                code.line(f"{items}.append({item})")
            code.line(f"{target} = {items}")
        elif field.element == "string":
            # range() has the count already, so ``n`` can be the length of each string.
            items = f"{field.attribute}_items"
            code.line(f"{items}: list[str] = []")
            with code.block("for _ in range(n):"):
                one = Field(field.name, "string", field.versions, compact=field.compact)
                self._emit_length(one, present)
                self._emit_slice(one, f"{items}.append(", limit, checks_null=True)
            code.line(f"{target} = {items}")
        elif field.element == "uuid":
            code.line(f"{target} = {code.use('read_uuids')}(buf, pos, n)")
            code.line("pos += n * 16")
        else:
            formats, size = FIXED_FORMATS[field.element], FIXED_SIZES[field.element]
            code.line(f'{target} = list({code.use("unpack_from")}(f">{{n}}{formats}", buf, pos))')
            code.line("pos += n" if size == 1 else f"pos += n * {size}")

    def _emit_struct(self, field: Field, present: Versions) -> None:
        code = self.code
        read = f"self.{field.attribute}, pos = {field.struct}._read(buf, pos, {self.limit}, version)"
        if not ever_nullable(field, present):
            code.line(read)
            return
        # A marker precedes a nullable struct: a signed byte, negative for null; in a tagged field an unsigned
        # varint, zero for null.
        partial = condition(field.nullable.within(present), present)
        assert not partial, f"{field.name}: a struct that is nullable in some versions only"
        if field.tag is None:
            code.line("n = buf[pos]")
            code.line("pos += 1")
            null_test = "n > 127"
        else:
            code.line(f"n, pos = {code.use('read_uvarint')}(buf, pos)")
            null_test = "n == 0"
        with code.block(f"if {null_test}:"):
            code.line(f"self.{field.attribute} = None")
        with code.block("else:"):
            code.line(read)

    def _emit_tags(self, tagged: list[Field], flexible: Versions) -> None:
        code = self.code
        code.line("n = buf[pos]")
        code.line("pos += 1")
        with code.block("if n:"):
            if not tagged:
                code.line(
                    f"self.unknown_tags, pos = {code.use('read_unknown_tags')}(buf, pos, {self.limit}, n)"
                )
                return
            with code.block("if n > 127:"):
                code.line(f"n, pos = {code.use('uvarint_tail')}(buf, pos, n)")
            code.line(f"{code.use('take_elements')}(n)")
            code.line("tag = -1")
            code.line("unknown_tags: dict[int, bytes] = {}")
            with code.block("for _ in range(n):"):
                code.line(f"tag, pos, tag_end = {code.use('read_tag')}(buf, pos, limit, tag)")
                code.line("start = pos")
                self.limit = "tag_end"
                word = "if"
                for field in sorted(tagged, key=lambda field: field.tag or 0):
                    with code.block(f"{word} tag == {field.tag}:"):
                        self._emit_tag(field, flexible)
                    word = "elif"
                self.limit = "limit"
                with code.block("else:"):
                    code.line("unknown_tags[tag] = bytes(buf[pos:tag_end])")
                    code.line("pos = tag_end")
                with code.block("if pos != tag_end:"):
                    label = f'f"{self.struct.name} tag {{tag}}"'
                    code.line(f"raise {code.use('tag_size_error')}({label}, tag_end - start, pos - start)")
            with code.block("if unknown_tags:"):
                code.line("self.unknown_tags = unknown_tags")

    def _emit_tag(self, field: Field, flexible: Versions) -> None:
        code = self.code
        present = field.versions.within(flexible)
        absent = absence(present, flexible)
        if absent:
            with code.block(f"if {absent}:"):
                code.line(
                    f'raise {code.use("tag_version_error")}("{self.struct.name}", {field.tag}, version)'
                )
        if is_fixed(field):
            self._emit_fixed([field])
        else:
            self._emit_variable(field, present)

    def _label(self, field: Field) -> str:
        return f'"{self.struct.name}.{field.attribute}"'
