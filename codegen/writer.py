"""Generates the ``_write`` method of a struct.

Locals of the method: ``out``, ``data`` (an encoded string), ``n`` (a length), ``tags`` (fields by tag).
"""

from __future__ import annotations

from itertools import groupby

from codegen.layout import absence, condition, ever_nullable, is_fixed, is_not_default, present_fields
from codegen.notation import FIXED_FORMATS, Field, MessageSpec, StructSpec, Versions
from codegen.pycode import Code


class Writer:
    def __init__(self, code: Code, message: MessageSpec, struct: StructSpec) -> None:
        self.code = code
        self.message = message
        self.struct = struct
        self.out = "out"

    def emit(self) -> None:
        code, struct = self.code, self.struct
        fields = present_fields(struct)
        plain = [field for field in fields if field.tag is None]
        tagged = [field for field in fields if field.tag is not None]
        with code.block("def _write(self, out: bytearray, version: int) -> None:"):
            for present, group in groupby(plain, key=lambda field: field.versions.within(struct.possible)):
                self._emit_group(list(group), present)
            flexible = Versions(self.message.flexible_from, struct.possible.high).within(struct.possible)
            if flexible.empty:
                self._emit_no_tags("if")
                return
            test = condition(flexible, struct.possible)
            with code.branch(test):
                self._emit_tags(tagged, flexible)
            kept = [field for field in tagged if not field.ignorable]
            if test and kept:
                with code.block("else:"):
                    for field in kept:
                        self._emit_absent(field)
                    self._emit_no_tags("if")
            elif test:
                self._emit_no_tags("elif")

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
        kept = [field for field in fields if not field.ignorable]
        if test:
            self._emit_all_absent(kept)

    def _emit_all_absent(self, fields: list[Field]) -> None:
        """The else branch of a version test: fields that are not in the version must have defaults."""
        if len(fields) == 1:
            self._emit_absent(fields[0], "elif")
        elif fields:
            with self.code.block("else:"):
                for field in fields:
                    self._emit_absent(field)

    def _emit_absent(self, field: Field, word: str = "if") -> None:
        code = self.code
        with code.block(f"{word} {is_not_default(field, self.struct.possible)}:"):
            code.line(f"raise {code.use('absent_error')}({self._label(field)}, version)")

    def _emit_fixed(self, fields: list[Field]) -> None:
        code = self.code
        for field in fields:
            if field.type == "uuid":
                self._emit_uuid_check(f"self.{field.attribute}", field)
        formats = "".join(FIXED_FORMATS[field.type] for field in fields)
        values = ", ".join(f"self.{field.attribute}" for field in fields)
        code.line(f"{self.out} += {code.pack(formats)}({values})")

    def _emit_uuid_check(self, value: str, field: Field) -> None:
        code = self.code
        with code.block(f"if len({value}) != 16:"):
            code.line(f"raise {code.use('uuid_error')}({self._label(field)}, {value})")

    def _emit_variable(self, field: Field, present: Versions) -> None:
        code = self.code
        value = f"self.{field.attribute}"
        if not ever_nullable(field, self.struct.possible):
            self._emit_value(field, present)
            return
        with code.block(f"if {value} is None:"):
            nullable = field.nullable.within(present)
            if nullable.empty:
                code.line(f"raise {code.use('null_error')}({self._label(field)}, version)")
            else:
                absent = absence(nullable, present)
                if absent:
                    with code.block(f"if {absent}:"):
                        code.line(f"raise {code.use('null_error')}({self._label(field)}, version)")
                self._emit_null(field, present)
        with code.block("else:"):
            if field.is_struct:
                code.line(f"{self.out}.append(1)")
            self._emit_value(field, present)

    def _emit_null(self, field: Field, present: Versions) -> None:
        code, out = self.code, self.out
        if field.is_struct:
            code.line(f"{out}.append(0xFF)" if field.tag is None else f"{out}.append(0)")
            return
        old = f'{out} += b"\\xff\\xff"' if field.type == "string" else f'{out} += b"\\xff\\xff\\xff\\xff"'
        self._emit_by_flexibility(field, present, f"{out}.append(0)", old)

    def _emit_by_flexibility(self, field: Field, present: Versions, compact: str, old: str) -> None:
        """Emit one of two statements, for flexible versions and for earlier ones."""
        code = self.code
        flexible_from = self.message.flexible_from if field.compact else present.high + 1
        if flexible_from <= present.low:
            code.line(compact)
        elif flexible_from > present.high:
            code.line(old)
        else:
            with code.block(f"if version >= {flexible_from}:"):
                code.line(compact)
            with code.block("else:"):
                code.line(old)

    def _emit_length(self, field: Field, present: Versions) -> None:
        """Write ``n``, the length of the next value."""
        code, out = self.code, self.out
        formats = "h" if field.type == "string" else "i"
        flexible_from = self.message.flexible_from if field.compact else present.high + 1
        if flexible_from > present.high:
            code.line(f"{out} += {code.pack(formats)}(n)")
            return
        compact = f"{code.use('write_uvarint')}({out}, n + 1)"
        if flexible_from <= present.low:
            with code.block("if n < 127:"):
                code.line(f"{out}.append(n + 1)")
            with code.block("else:"):
                code.line(compact)
        else:
            with code.block(f"if version < {flexible_from}:"):
                code.line(f"{out} += {code.pack(formats)}(n)")
            with code.block("elif n < 127:"):
                code.line(f"{out}.append(n + 1)")
            with code.block("else:"):
                code.line(compact)

    def _emit_value(self, field: Field, present: Versions) -> None:
        code = self.code
        value = f"self.{field.attribute}"
        if field.is_struct:
            code.line(f"{value}._write({self.out}, version)")
        elif field.is_array:
            self._emit_array(field, present)
        elif field.type == "string":
            self._emit_string(value, field, present)
        else:
            code.line(f"n = len({value})")
            self._emit_length(field, present)
            code.line(f"{self.out} += {value}")

    def _emit_string(self, value: str, field: Field, present: Versions) -> None:
        code = self.code
        code.line(f"data = {value}.encode()")
        code.line("n = len(data)")
        limit = code.use("STRING_BYTES_MAX")
        with code.block(f"if n > {limit}:"):
            code.line(f"raise {code.use('size_error')}({self._label(field)}, n, {limit})")
        self._emit_length(field, present)
        code.line(f"{self.out} += data")

    def _emit_array(self, field: Field, present: Versions) -> None:
        code, out = self.code, self.out
        value = f"self.{field.attribute}"
        code.line(f"n = len({value})")
        self._emit_length(field, present)
        item = f"{field.attribute}_item"
        if field.struct is not None:
            with code.block(f"for {item} in {value}:"):
                code.line(f"{item}._write({out}, version)")
        elif field.element == "string":
            with code.block(f"for {item} in {value}:"):
                one = Field(field.name, "string", field.versions, compact=field.compact)
                self._emit_string(item, one, present)
        elif field.element == "uuid":
            with code.block(f"for {item} in {value}:"):
                self._emit_uuid_check(item, field)
                code.line(f"{out} += {item}")
        else:
            code.line(f'{out} += {code.use("pack")}(f">{{n}}{FIXED_FORMATS[field.element]}", *{value})')

    def _emit_tags(self, tagged: list[Field], flexible: Versions) -> None:
        code = self.code
        if not tagged:
            with code.block("if self.unknown_tags:"):
                code.line(f"{code.use('write_tags')}(out, {{}}, self.unknown_tags)")
            with code.block("else:"):
                code.line("out.append(0)")
            return
        code.line("tags: dict[int, bytearray] = {}")
        for field in sorted(tagged, key=lambda field: field.tag or 0):
            present = field.versions.within(flexible)
            test = condition(present, flexible)
            with code.branch(test):
                self._emit_tag(field, present)
            if test and not field.ignorable:
                self._emit_absent(field, "elif")
        with code.block("if tags or self.unknown_tags:"):
            code.line(f"{code.use('write_tags')}(out, tags, self.unknown_tags)")
        with code.block("else:"):
            code.line("out.append(0)")

    def _emit_tag(self, field: Field, present: Versions) -> None:
        code = self.code
        with code.block(f"if {is_not_default(field, self.struct.possible)}:"):
            self.out = "tag"
            code.line(f"tag = tags[{field.tag}] = bytearray()")
            if is_fixed(field):
                self._emit_fixed([field])
            elif is_not_default(field, self.struct.possible).endswith("is not None"):
                if field.is_struct:
                    code.line("tag.append(1)")
                self._emit_value(field, present)
            else:
                self._emit_variable(field, present)
            self.out = "out"

    def _emit_no_tags(self, word: str) -> None:
        code = self.code
        with code.block(f"{word} self.unknown_tags:"):
            code.line(f'raise {code.use("absent_error")}("tagged fields of {self.struct.name}", version)')

    def _label(self, field: Field) -> str:
        return f'"{self.struct.name}.{field.attribute}"'
