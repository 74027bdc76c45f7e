"""JSON Schema of a format, made from the msgspec Structs that its reader decodes with, so that the two can't differ.

`msgspec.json.schema` can't show a Struct with a Raw default, and Raw says nothing about what it holds: so the Structs are mirrored, with Raw
as "any JSON value", or as what ``HELD`` of their module says that the reader decodes it with (``{Struct: {field: type}}``). A format that reads field by field has Structs
that describe what it looks for; tests hold them against the fixtures. Protobuf messages (OTLP) are described from their descriptors, by the rules of OTLP's JSON encoding.
"""

from __future__ import annotations

import sys
import types
import typing
from typing import Any, ForwardRef, Union

import msgspec
from msgspec import Raw, Struct

from .errors import UsageError
from .named import load
from .registry import get

_MODULE = f"{__name__}._mirrors"


def json_schema(format: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one document, or of one line, of ``format``; of a folder, of any of the documents in it. UsageError when it has none, and why."""
    one = get(format)
    if one.schema is None:
        raise UsageError(f"{format} has no JSON Schema: {one.no_schema or 'it is not JSON'}")
    subject = load(one.schema)
    if isinstance(subject, dict):  # documents by the name of their file
        parts = {name: schema_of(part) for name, part in subject.items()}
        inner = {name: definition for part in parts.values() for name, definition in part.pop("$defs").items()}
        found = {"anyOf": [{"title": name, **part} for name, part in parts.items()], "$defs": inner}
    else:
        found = _message(subject) if hasattr(subject, "DESCRIPTOR") else schema_of(subject)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": one.title, **found}


def schema_of(subject: Any) -> dict[str, Any]:
    """The JSON Schema of a msgspec Struct, or a union of them."""
    module = types.ModuleType(_MODULE)
    sys.modules[_MODULE] = module  # where the mirrors find each other by name
    try:
        mirror = typing.get_type_hints(_Holder(_mirror(subject, module, {})), vars(module))["it"]
        found: dict[str, Any] = msgspec.json.schema(mirror)
        return found
    finally:
        del sys.modules[_MODULE]


def _Holder(annotation: Any) -> type:
    return type("Holder", (), {"__annotations__": {"it": annotation}, "__module__": _MODULE})


def _mirror(subject: Any, module: types.ModuleType, seen: dict[type, str]) -> Any:
    """The type with every Struct in it replaced by its mirror, and Raw by Any."""
    if subject is Raw:
        return Any
    if isinstance(subject, type) and issubclass(subject, Struct):
        return ForwardRef(_struct(subject, module, seen))
    origin, arguments = typing.get_origin(subject), typing.get_args(subject)
    if origin is None or origin is typing.Literal:
        return subject
    inner = tuple(_mirror(a, module, seen) for a in arguments)
    if origin in (Union, types.UnionType):
        return Union[inner]  # noqa: UP007
    return origin[inner]


def _struct(subject: type[Struct], module: types.ModuleType, seen: dict[type, str]) -> str:
    if subject in seen:
        return seen[subject]
    name = subject.__name__
    while hasattr(module, name):
        name += "_"
    seen[subject] = name
    setattr(module, name, None)  # the name is taken while its fields are looked at
    fields: list[Any] = []
    names: dict[str, str] = {}
    held = getattr(sys.modules[subject.__module__], "HELD", {}).get(subject, {})
    for one in msgspec.structs.fields(subject):
        kind = _mirror(held.get(one.name, one.type), module, seen)
        names[one.name] = one.encode_name
        if one.required:
            fields.append((one.name, kind))
        elif isinstance(one.default, Raw) or (one.default is msgspec.NODEFAULT and one.default_factory not in (list, dict, set, tuple)):
            fields.append((one.name, Union[kind, msgspec.UnsetType], msgspec.UNSET))  # noqa: UP007
        elif one.default is msgspec.NODEFAULT:
            fields.append((one.name, kind, msgspec.field(default_factory=one.default_factory)))
        else:
            fields.append((one.name, kind, one.default))
    config = subject.__struct_config__
    mirror = msgspec.defstruct(
        name,
        fields,
        tag=config.tag,
        tag_field=config.tag_field,
        rename=names,
        forbid_unknown_fields=False,  # unknown fields are kept, not refused
        array_like=config.array_like,
        kw_only=True,
        module=_MODULE,
        namespace={"__doc__": subject.__doc__},
    )
    setattr(module, name, mirror)
    return name


# -------------------------------------------------------------------------------------------------- protobuf messages
_INT64 = {"anyOf": [{"type": "string", "pattern": "^-?[0-9]+$"}, {"type": "integer"}]}
_SCALARS: dict[str, dict[str, Any]] = {
    "double": {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]},
    "float": {"type": "number"},
    "int64": _INT64,
    "uint64": _INT64,
    "fixed64": _INT64,
    "sfixed64": _INT64,
    "sint64": _INT64,
    "bool": {"type": "boolean"},
    "string": {"type": "string"},
}
_TYPES = (
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message", "bytes", "uint32", "enum",
    "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
"""protobuf's numbers of field types, from descriptor.proto."""


def _message(message: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    top = _reference(message.DESCRIPTOR, found)
    return {**top, "$defs": found}


def _reference(descriptor: Any, found: dict[str, Any]) -> dict[str, Any]:
    name = descriptor.name
    if name not in found:
        found[name] = {}
        properties = {f.json_name: _field(f, found) for f in descriptor.fields}
        found[name] = {"type": "object", "properties": properties}
    return {"$ref": f"#/$defs/{name}"}


def _field(one: Any, found: dict[str, Any]) -> dict[str, Any]:
    kind = _TYPES[one.type]
    if kind == "message":
        inner = _reference(one.message_type, found)
    elif kind == "enum":
        inner = {"enum": [*(v.number for v in one.enum_type.values), *(v.name for v in one.enum_type.values)]}
    elif kind == "bytes":  # OTLP's rule: ids in hex, other bytes in base64
        ids = one.json_name in ("traceId", "spanId", "parentSpanId")
        inner = {"type": "string", "pattern": "^[0-9A-Fa-f]*$"} if ids else {"type": "string", "contentEncoding": "base64"}
    else:
        inner = _SCALARS.get(kind, {"type": "integer"})
    repeated = one.is_repeated if hasattr(one, "is_repeated") else one.label == 3
    return {"type": "array", "items": inner} if repeated else inner
