"""Read a spec: YAML to model, or one error that says where, what, and what is allowed."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from semistream.errors import InputError
from semistream.pipeline.spec import PipelineSpec

HOME_VARIABLE = "SEMISTREAM_HOME"
_HOME = "semistream-home"
_SECRET_FIELD = re.compile(r"passw(or)?d$|^pwd$|secret|token|api_?key|credential", re.IGNORECASE)
_SECRET_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^/@\s]*:[^/@\s]*@", re.IGNORECASE)
_COLUMN_MAPS = {"schema", "on", "compute"}  # their keys are the user's names, not fields
_Path = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    """YAML as JSON means it. YAML 1.1 reads the key `on` as true and `12:30` as 750."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the field {key.value!r} is there twice", key.start_mark
                )
            seen.add(key.value)
        return dict(super().construct_mapping(node, deep))


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|false", "tf"),
    ("null", r"null|~|", ["n", "~", ""]),
    ("int", r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?", "-+0123456789"),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), list(_first)
    )


def home_folder(home: str | Path | None = None) -> Path:
    """`home`, else the environment's `SEMISTREAM_HOME`, else `semistream-home` here."""
    chosen = str(home or os.environ.get(HOME_VARIABLE) or _HOME)
    if "://" in chosen:
        raise InputError(
            f"home {chosen!r} is not a local folder: leases and commits need one; mount it"
        )
    return Path(chosen).absolute()


def load_spec(path: str | Path, *, home: str | Path | None = None) -> PipelineSpec:
    """The spec in the file `path`, with `{home}` and `{name}` filled in."""
    raw = _read(Path(path))
    return parse_spec(raw, file=str(path), home=home)


def parse_spec(raw: object, *, file: str, home: str | Path | None = None) -> PipelineSpec:
    """The spec in `raw`, the content of a YAML file; `file` is named in errors."""
    if not isinstance(raw, Mapping):
        raise InputError(f"{file} is not a pipeline spec: give fields such as name: sales")
    _refuse_secrets(raw, file)
    folder = home_folder(home)
    try:
        draft = PipelineSpec.model_validate(raw)
        values = {"home": str(folder), "name": draft.name}
        whole = draft.model_dump(by_alias=True)  # with the defaults, which have {home} too
        spec = PipelineSpec.model_validate(_expanded(whole, values))
    except ValidationError as error:
        raise InputError(_message(error, raw, file)) from None
    spec._home, spec._file = folder, file
    return spec


def spec_json_schema() -> dict[str, Any]:
    """The JSON schema of a spec, for editors."""
    return PipelineSpec.model_json_schema(by_alias=True)


def _read(path: Path) -> object:
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise InputError(f"cannot read the spec {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{path}{line}: not valid YAML: {problem}") from None


def _refuse_secrets(raw: object, file: str) -> None:
    advice = (
        "a spec is copied and logged; name an environment variable (password_env) or a file that "
        "only its owner may read (password_file)"
    )
    for path, value in _leaves(raw):
        names = [str(part) for part in path]
        is_column = len(names) > 1 and names[-2] in _COLUMN_MAPS
        if names and not is_column and _SECRET_FIELD.search(names[-1]):
            raise InputError(f"{file}: {_dotted(path)}: no secrets in a spec: {advice}")
        if isinstance(value, str) and _SECRET_URL.search(value):
            raise InputError(f"{file}: {_dotted(path)}: an address with a password: {advice}")


def _leaves(value: object, path: _Path = ()) -> Iterator[tuple[_Path, object]]:
    yield path, value
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    for key, each in parts:
        yield from _leaves(each, (*path, key))


def _expanded(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _expanded(each, values) for key, each in value.items()}
    if isinstance(value, list):
        return [_expanded(each, values) for each in value]
    if isinstance(value, str):
        for name, text in values.items():
            value = value.replace("{" + name + "}", text)
    return value


def _message(error: ValidationError, raw: Mapping[Any, Any], file: str) -> str:
    """The first problem in full, the others by their place."""
    problems = sorted(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    places = [_place(each, raw) for each in problems]
    text = f"{file}: {_dotted(places[0])}: {_problem(problems[0], places[0])}"
    others = list(dict.fromkeys(_dotted(place) for place in places[1:]))
    return text + (f"; also wrong: {', '.join(others)}" if others else "")


def _place(problem: ErrorDetails, raw: Mapping[Any, Any]) -> _Path:
    """The path in the file: pydantic's also names the chosen kind of a union."""
    place: list[str | int] = []
    value: Any = raw
    for part in problem["loc"]:
        is_there = isinstance(value, Mapping) and part in value
        if is_there or (isinstance(value, list) and isinstance(part, int)):
            value = value[part]
        elif part != problem["loc"][-1] or problem["type"] != "missing":
            continue
        place.append(part)
    if problem["type"].startswith("union_tag"):
        place.append("format")
    return tuple(place)


def _problem(problem: ErrorDetails, place: _Path) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "extra_forbidden":
        known = _fields_at(problem["loc"][:-1])
        return f"unknown field{_suggestion(str(place[-1]), known)}; allowed are {', '.join(known)}"
    if kind == "missing":
        return "this field is missing"
    if kind == "union_tag_not_found":
        return "this field is missing: it says which kind this is, for example parquet or mysql"
    given = problem["input"]
    if kind == "union_tag_invalid":
        given, allowed = context["tag"], str(context["expected_tags"]).replace("'", "")
        return f"{given!r} is not allowed{_suggestion(str(given), allowed.split(', '))}; " + (
            f"allowed are {allowed}"
        )
    if kind == "literal_error":
        allowed = str(context["expected"]).replace("'", "").replace(" or ", ", ")
        hint = _suggestion(str(given), allowed.split(", "))
        return f"{given!r} is not allowed{hint}; allowed are {allowed}"
    wanted = problem["msg"].removeprefix("Value error, ")
    return f"{_short(given)} is not allowed: {wanted}"


def _fields_at(loc: tuple[str | int, ...]) -> list[str]:
    """The fields that the model at `loc` has."""
    kinds: list[Any] = [PipelineSpec]
    for part in loc:
        kinds = [inner for kind in kinds for inner in _inside(kind, part)]
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    names = (f.alias or n for model in models for n, f in model.model_fields.items())
    return sorted(dict.fromkeys(names))


def _inside(kind: Any, part: str | int) -> list[Any]:
    """The models that may stand at `part` of a model, or of a list or map of models."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            if part in (name, field.alias):
                return _models(field.annotation)
        tag = kind.model_fields.get("format")
        chosen = tag is not None and part in get_args(tag.annotation)
        # A part that is no field is the kind chosen of a union, or a key or index on the way.
        return [kind] if chosen or tag is None or isinstance(part, int) else []
    return [kind]


def _models(annotation: Any) -> list[Any]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for each in get_args(annotation) for model in _models(each)]


def _suggestion(given: str, known: list[str]) -> str:
    close = difflib.get_close_matches(given, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _dotted(path: _Path) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.lstrip(".") or "(the whole file)"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
