"""Reads the catalogue of claims, results/claims.json, and names the place of what is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = "assay-claims/1"
ROOT = Path(__file__).resolve().parents[3]
CATALOGUE = ROOT / "results/claims.json"

Axes = dict[str, tuple[str, ...]]


class ClaimError(Exception):
    """What is wrong with the catalogue, or with a config that it names."""


@dataclass(frozen=True, slots=True)
class Rule:
    """When a claim holds: the measured number lies above or below a bound, or between two."""

    kind: str  # "below", "above", "at_least", "between" or "equal"
    bounds: tuple[float, ...]  # empty: the published value


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """An earlier verdict from a report that cannot carry it."""

    start: str  # of the report's run
    reason: str
    cell: Axes  # only pairs with such a cell; empty: all


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of a study, the cells that it is about, and the rule that decides it."""

    id: str
    sentence: str
    printed: str  # where the study says so
    config: str
    cell: Axes  # which cells it is about
    metric: str
    over: str  # the metric that `metric` is divided by, if it is another one
    to: Axes | None  # the axes in which the other cell differs; None: not a ratio
    to_of_config: bool  # `to` is that of the config's entry
    published: bool  # a published entry of the config has its value
    by: tuple[str, ...]  # a line of the table for each combination of these axes
    rule: Rule | None  # None: a comparison that the study did not make
    exact: bool  # the number is a count or a plan, so that it needs no interval
    device: str  # the claim is about this device, so that another one decides nothing; empty: about any
    also: tuple[Axes, ...]  # other partners, as `to`: if one of them gives another answer, nothing is decided
    published_as: str  # the metric of the published entry, if the claim is measured by another one
    subject: str  # what the number is of, if it is not of the study's subject
    withdrawn: tuple[Withdrawal, ...]
    unmeasured: str = ""  # why nothing measures it; then it has no cells

    @property
    def is_ratio(self) -> bool:
        return self.to is not None or self.to_of_config


@dataclass(frozen=True, slots=True)
class Family:
    """Claims that are one line of the first table."""

    study: str  # its short name
    name: str
    claims: tuple[str, ...]  # ids


@dataclass(frozen=True, slots=True)
class StudyOf:
    """A published study as its configs, claims, figures and samples."""

    name: str
    title: str
    configs: tuple[str, ...]
    printed: str  # where the study has the values of its configs, if an entry does not say it
    setting: Mapping[str, str]  # of the study: what it measured on
    samples: tuple[str, ...]
    unmeasured: str  # why it has none, if the machine is not the reason
    filters: Mapping[str, str]  # of a sample whose config has more rows today: what --filter keeps of it
    text: str  # a file
    columns: tuple[str, ...]  # metrics of the table of measured values
    figures: tuple[str, ...]  # plots in the order of the page
    claims: tuple[Claim, ...]
    comparisons: tuple[Claim, ...]
    families: tuple[Family, ...]  # every claim is in one


@dataclass(frozen=True, slots=True)
class _At:
    """A value of the document and its place."""

    value: Any
    place: str

    def fail(self, why: str) -> ClaimError:
        return ClaimError(f"{self.place}: {why}")

    def fields(self, known: Sequence[str], needed: Sequence[str]) -> dict[str, _At]:
        if not isinstance(self.value, dict):
            raise self.fail(f"should be an object, is {_kind(self.value)}")
        for key in self.value:
            if key not in known:
                raise self.fail(f'unknown key "{key}"; known are {", ".join(known)}')
        for key in needed:
            if key not in self.value:
                raise self.fail(f'"{key}" is missing')
        return {key: _At(inner, f"{self.place}.{key}") for key, inner in self.value.items()}

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value:
            raise self.fail(f"should be a text, is {_kind(self.value)}")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.fail(f"should be true or false, is {_kind(self.value)}")
        return self.value

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.fail(f"should be a number, is {_kind(self.value)}")
        return float(self.value)

    def items(self) -> list[_At]:
        if not isinstance(self.value, list):
            raise self.fail(f"should be a list, is {_kind(self.value)}")
        return [_At(inner, f"{self.place}[{i}]") for i, inner in enumerate(self.value)]

    def texts(self) -> tuple[str, ...]:
        return tuple(item.text() for item in self.items())


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return "an empty text" if value == "" else names.get(type(value), "a number")


def spelling(value: Any) -> str:
    """Write a value of an axis as a cell has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _axes(at: _At) -> Axes:
    if not isinstance(at.value, dict) or not at.value:
        raise at.fail("should be an object of axes")
    out: Axes = {}
    for key, inner in at.value.items():
        given = inner if isinstance(inner, list) else [inner]
        if not given or any(isinstance(one, dict | list) or one is None for one in given):
            raise at.fail(f'"{key}" should be a value, or a list of values')
        out[key] = tuple(spelling(one) for one in given)
    return out


_RULES = ("below", "above", "at_least", "between", "equal")


def _rule(at: _At) -> Rule:
    fields = at.fields(_RULES, ())
    if len(fields) != 1:
        raise at.fail(f"should have one of {', '.join(_RULES)}")
    ((kind, bound),) = fields.items()
    if bound.value == "published":
        if kind == "between":
            raise bound.fail("takes two numbers")
        return Rule(kind, ())
    if kind == "between":
        bounds = tuple(item.number() for item in bound.items())
        if len(bounds) != 2 or bounds[0] > bounds[1]:
            raise bound.fail("should be two numbers, the smaller one first")
        return Rule(kind, bounds)
    return Rule(kind, (bound.number(),))


def _withdrawal(at: _At) -> Withdrawal:
    fields = at.fields(("start", "reason", "cell"), ("start", "reason"))
    cell = _axes(fields["cell"]) if "cell" in fields else {}
    return Withdrawal(fields["start"].text(), fields["reason"].text(), cell)


_COMMON = ("id", "cell", "metric", "over", "to", "by", "config", "withdrawn")
_OF_CLAIMS = ("claim", "printed", "published", "rule", "exact", "device", "also", "published_as", "subject")


def without_cells(identity: str, sentence: str, config: str, **fields: Any) -> Claim:
    """Make a claim that picks no cells by itself."""
    absent: dict[str, Any] = {
        **{"printed": "", "cell": {}, "metric": "", "over": "", "to": None, "to_of_config": False},
        **{"published": False, "by": (), "rule": None, "exact": False, "device": "", "also": ()},
        **{"published_as": "", "subject": "", "withdrawn": ()},
    }
    return Claim(**absent | {"id": identity, "sentence": sentence, "config": config} | fields)


def _claim(at: _At, configs: Sequence[str], is_comparison: bool) -> Claim:
    if isinstance(at.value, dict) and "unmeasured" in at.value and not is_comparison:
        fields = at.fields(("id", "claim", "printed", "unmeasured"), ("id", "claim"))
        texts = {key: fields[key].text() for key in ("printed", "unmeasured") if key in fields}
        return without_cells(fields["id"].text(), fields["claim"].text(), configs[0], **texts)
    more = ("comparison",) if is_comparison else _OF_CLAIMS
    needed = (
        ("id", "cell", "metric", "comparison") if is_comparison else ("id", "cell", "metric", "claim", "rule")
    )
    fields = at.fields(_COMMON + more, needed)
    config = fields["config"].text() if "config" in fields else configs[0]
    if config not in configs:
        raise fields["config"].fail(f'"{config}" is not a config of this study: {", ".join(configs)}')
    published = not is_comparison and ("published" not in fields or fields["published"].flag())
    of_config = "to" in fields and fields["to"].value == "published"
    if of_config and not published:
        raise fields["to"].fail('is "published", and no published entry is behind this')
    rule = _rule(fields["rule"]) if "rule" in fields else None
    if rule and not rule.bounds and not published:
        raise fields["rule"].fail('is "published", and no published entry is behind this')
    if "over" in fields and "to" in fields:
        raise fields["over"].fail("is for a ratio of two metrics of one cell: leave out `to`")
    if "also" in fields and "to" not in fields:
        raise fields["also"].fail("names other partners of a ratio: `to` must name the first")
    return Claim(
        id=fields["id"].text(),
        sentence=fields["comparison" if is_comparison else "claim"].text(),
        printed=fields["printed"].text() if "printed" in fields else "",
        config=config,
        cell=_axes(fields["cell"]),
        metric=fields["metric"].text(),
        over=fields["over"].text() if "over" in fields else "",
        to=_axes(fields["to"]) if "to" in fields and not of_config else None,
        to_of_config=of_config,
        published=published,
        by=fields["by"].texts() if "by" in fields else ("device",),
        rule=rule,
        exact="exact" in fields and fields["exact"].flag(),
        device=fields["device"].text() if "device" in fields else "",
        also=tuple(map(_axes, fields["also"].items())) if "also" in fields else (),
        published_as=fields["published_as"].text() if "published_as" in fields else "",
        subject=fields["subject"].text() if "subject" in fields else "",
        withdrawn=tuple(map(_withdrawal, fields["withdrawn"].items())) if "withdrawn" in fields else (),
    )


_STUDY = (
    *("name", "title", "configs", "samples", "unmeasured", "filters", "text"),
    *("columns", "figures", "claims", "comparisons", "short", "families", "printed", "setting"),
)
SETTING = ("processor", "gpu", "torch", "tensorflow", "mxnet", "repeats")


def _families(at: _At | None, short: str, claims: Sequence[Claim]) -> tuple[Family, ...]:
    """Read {"what the claims say": [ids]}."""
    if at is None:
        return ()
    if not isinstance(at.value, dict):
        raise at.fail(f"should be an object, is {_kind(at.value)}")
    known = [claim.id for claim in claims]
    out = []
    for name, ids in at.value.items():
        family = Family(short, name, _At(ids, f'{at.place}["{name}"]').texts())
        for one in family.claims:
            if one not in known:
                raise at.fail(f'"{name}" names the claim "{one}"; known are {", ".join(known)}')
        out.append(family)
    named = [one for family in out for one in family.claims]
    for one in known:
        if named.count(one) != 1:
            raise at.fail(f'the claim "{one}" must be in one family, and is in {named.count(one)}')
    return tuple(out)


def _study(at: _At) -> StudyOf:
    fields = at.fields(_STUDY, ("name", "title", "configs", "text", "figures"))
    configs = fields["configs"].texts()
    if not configs:
        raise fields["configs"].fail("names no config")

    samples = fields["samples"].texts() if "samples" in fields else ()
    if samples and "unmeasured" in fields:
        raise fields["unmeasured"].fail("says why there is no sample, and there are some")
    filters: dict[str, str] = {}
    for sample, one in fields["filters"].fields(samples, ()).items() if "filters" in fields else ():
        filters[sample] = one.text()

    def claims(key: str) -> tuple[Claim, ...]:
        items = fields[key].items() if key in fields else []
        return tuple(_claim(item, configs, key == "comparisons") for item in items)

    setting = fields["setting"].fields(SETTING, ()) if "setting" in fields else {}
    short = fields["short"].text() if "short" in fields else fields["name"].text()
    return StudyOf(
        name=fields["name"].text(),
        title=fields["title"].text(),
        configs=configs,
        printed=fields["printed"].text() if "printed" in fields else "",
        setting={key: setting[key].text() for key in SETTING if key in setting},
        samples=samples,
        unmeasured=fields["unmeasured"].text() if "unmeasured" in fields else "",
        filters=filters,
        text=fields["text"].text(),
        columns=fields["columns"].texts() if "columns" in fields else (),
        figures=fields["figures"].texts(),
        claims=claims("claims"),
        comparisons=claims("comparisons"),
        families=_families(fields.get("families"), short, claims("claims")),
    )


def parse(document: Any, where: str) -> tuple[StudyOf, ...]:
    """Read a catalogue. Raises ClaimError with the place of what is wrong."""
    fields = _At(document, where).fields(("schema", "studies"), ("schema", "studies"))
    if fields["schema"].value != SCHEMA:
        raise fields["schema"].fail(f'is "{fields["schema"].value}"; this program reads "{SCHEMA}"')
    studies = tuple(map(_study, fields["studies"].items()))
    _refuse_twins([study.name for study in studies], f"{where}: two studies have the name")
    for study in studies:
        ids = [claim.id for claim in (*study.claims, *study.comparisons)]
        _refuse_twins(ids, f"{where}: {study.name}: two claims have the id")
    return studies


def _refuse_twins(names: Sequence[str], said: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ClaimError(f'{said} "{name}"')


def read_catalogue(path: Path = CATALOGUE) -> tuple[StudyOf, ...]:
    """Read the catalogue of a file. Raises ClaimError and OSError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ClaimError(f"{path}: is not valid JSON: {error}") from error
    return parse(document, path.name)


def study_named(studies: Sequence[StudyOf], name: str) -> StudyOf:
    """Find a study by its name or by that of one of its configs, or name those that there are."""
    by_name: Mapping[str, StudyOf] = {study.name: study for study in studies}
    of_config = {config: study for study in studies for config in study.configs}
    if name not in by_name and name in of_config:
        return of_config[name]
    if name not in by_name:
        raise ClaimError(f"unknown study {name}; known are {', '.join(by_name)}")
    return by_name[name]
