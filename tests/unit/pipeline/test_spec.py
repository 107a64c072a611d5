"""A spec is read as written, or refused with one error that says where and what is allowed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from semistream.cli import main
from semistream.errors import InputError
from semistream.joins.registry import algorithms
from semistream.pipeline.passwords import password_of
from semistream.pipeline.spec import Algorithm, MySQLSink
from semistream.pipeline.spec_file import load_spec, parse_spec, spec_json_schema

SPECS = Path(__file__).parents[3] / "include/pipelines"
SECRET = "geheim"


def raw() -> dict:
    return {
        "name": "sales",
        "stream": {"format": "json", "path": "{home}/in", "schema": {"id": "long"}},
        "joins": [{"master": "products", "on": {"id": "id"}}],
        "sink": {"format": "parquet", "path": "{home}/out"},
        "masters": {"products": {"from": {"format": "csv", "path": "p.csv"}, "key": ["id"]}},
    }


def mysql(**more) -> dict:
    return {"format": "mysql", "connection": "mysql://u@h/db", "table": "t", **more}


def changed(path: str, value: object) -> dict:
    spec = raw()
    *parents, last = path.split(".")
    place = spec
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
    place[last] = value
    return spec


@pytest.mark.parametrize("name", ["sales", "orders"])
def test_the_shipped_specs_are_right(name, tmp_path):
    spec = load_spec(SPECS / f"{name}.yaml", home=tmp_path)
    assert spec.name == name
    assert spec.sink.path == f"{tmp_path}/warehouse/{name}"
    assert spec.outputs()["unmatched"] == f"{tmp_path}/unmatched/{name}"


def test_on_is_a_field_and_not_a_yaml_truth(tmp_path):
    assert load_spec(SPECS / "orders.yaml", home=tmp_path).joins[1].on == {"region_code": "code"}


def test_the_algorithms_are_those_of_the_engine():
    assert set(Algorithm.__args__) == {"auto", *algorithms()}


@pytest.mark.parametrize(
    ("path", "value", "parts"),
    [
        ("strem", 1, ["strem: unknown field", "'stream'?", "allowed are compute, drop"]),
        ("stream.pth", "x", ["stream.pth: unknown", "did you mean 'path'?", "format, path"]),
        ("stream.format", "jsn", ["stream.format: 'jsn'", "did you mean 'json'?", "kafka, mysql"]),
        ("stream.schema.id", "itn", ["stream.schema.id: 'itn'", "timestamp_ntz"]),
        ("joins.0.slect", ["a"], ["joins[0].slect", "'select'?", "master, on, select"]),
        ("masters.products.uniqe", True, ["masters.products.uniqe", "'unique'?"]),
        ("masters.products.retention.versions", 0, ["retention.versions: 0", "equal to 1"]),
        ("masters.products.unique", "yes", ["masters.products.unique: 'yes'", "boolean"]),
        ("masters.products.key", ["id", "id"], ["masters.products", "twice"]),
        ("engine.algorithm", "hybridjion", ["engine.algorithm", "'hybridjoin'?", "ssbj"]),
        ("engine.memory", "lots", ["engine.memory: 'lots'", "64MB"]),
        ("rejected.share", 1.5, ["rejected.share: 1.5", "less than or equal to 1"]),
        ("sink.path", "s3://bucket/x", ["sink.path", "rename"]),
        ("sink", mysql(connection="mysql://h/db"), ["sink.connection", "mysql://user@host"]),
        ("name", "../up", ["name: '../up'", "lower-case"]),
    ],
)
def test_one_error_names_file_field_value_and_what_is_allowed(path, value, parts):
    with pytest.raises(InputError) as caught:
        parse_spec(changed(path, value), file="sales.yaml")
    message = str(caught.value)
    assert message.startswith("sales.yaml: ")
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_a_missing_field_is_named():
    spec = raw()
    del spec["stream"]["path"]
    with pytest.raises(InputError, match=r"stream\.path: this field is missing"):
        parse_spec(spec, file="sales.yaml")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("sink", mysql(password=SECRET)),
        ("sink", mysql(connection=f"mysql://u:{SECRET}@h/db")),
        ("stream.path", f"https://u:{SECRET}@h/x"),
        ("api_key", SECRET),
    ],
)
def test_secrets_are_refused_and_not_repeated(path, value):
    with pytest.raises(InputError, match="password_file") as caught:
        parse_spec(changed(path, value), file="sales.yaml")
    assert SECRET not in str(caught.value)


def test_a_column_may_be_called_password():
    assert parse_spec(changed("stream.schema.password", "string"), file="f").stream.columns


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("name: a\nname: b\n", "line 2: not valid YAML: the field 'name' is there twice"),
        ("name: [a\n", "not valid YAML"),
        ("- a\n", "not a pipeline spec"),
    ],
)
def test_broken_yaml_is_one_line(tmp_path, text, part):
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        load_spec(tmp_path / "x.yaml")
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_password_comes_from_a_file_that_only_its_owner_reads(tmp_path, monkeypatch):
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    place = MySQLSink.model_validate(mysql(password_file=str(file)))
    file.chmod(0o640)
    with pytest.raises(InputError, match="mode 0640"):
        password_of(place)
    file.chmod(0o600)
    assert password_of(place).reveal() == SECRET.encode()
    named = MySQLSink.model_validate(mysql(password_env="SALES_DB"))
    with pytest.raises(InputError, match="SALES_DB"):
        password_of(named)
    monkeypatch.setenv("SALES_DB", SECRET)
    assert password_of(named).reveal() == SECRET.encode()


def test_the_json_schema_knows_the_fields_as_they_are_written():
    schema = spec_json_schema()
    assert "from" in schema["$defs"]["MasterSpec"]["properties"]
    assert schema["additionalProperties"] is False


def test_check_prints_the_spec_and_refuses_a_wrong_one(tmp_path, monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["semistream", "check", *map(str, arguments)])
        code = main()
        return code, capsys.readouterr()

    code, told = run(SPECS / "sales.yaml", "--json", "--home", tmp_path)
    assert code == 0
    assert json.loads(told.out)["spec"]["joins"][0]["master"] == "products"
    code, told = run("--schema")
    assert code == 0
    assert json.loads(told.out)["title"] == "PipelineSpec"
    (tmp_path / "bad.yaml").write_text("nme: x\n")
    code, told = run(tmp_path / "bad.yaml")
    assert (code, told.out, told.err.count("\n")) == (2, "", 1)
