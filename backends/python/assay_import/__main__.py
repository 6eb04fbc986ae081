"""python -m assay_import: read a model and write the folder of a network. `assay import` starts it."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from . import coverage, tensors
from .errors import Refused
from .importing import Import, import_file
from .network import one_line
from .notes import plural
from .options import Options, pair, read_shape


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refused(f"{message}; see --help")


def parser() -> Parser:
    found = Parser(prog="assay_import", description="Write an ONNX file or a .pt2 as a network of Assay.")
    found.add_argument("source", type=Path, metavar="SOURCE", help="a file of ONNX or of torch.export.save")
    found.add_argument("--out", type=Path, metavar="FOLDER", help="an empty folder")
    found.add_argument("--shape", action="append", default=[], metavar="NAME=N,3,224,224")
    found.add_argument("--bind", action="append", default=[], metavar="NAME=VALUE")
    found.add_argument("--output", default="", metavar="NAME")
    found.add_argument("--no-lift", action="append", default=[], metavar="RULE")
    found.add_argument(
        "--free-batch", action="store_true", help="replace a batch that is written in a reshape"
    )
    found.add_argument(
        "--train-constants", action="store_true", help="train the float constants of a file, too"
    )
    found.add_argument("--name", default="", help="the name of the network, for its description")
    found.add_argument("--dry-run", action="store_true", help="write nothing")
    found.add_argument("--json", action="store_true", help="print JSON")
    return found


def options_of(given: argparse.Namespace) -> Options:
    return Options(
        shapes=dict(read_shape(text) for text in given.shape),
        bound=dict(pair(text, "NAME=VALUE") for text in given.bind),
        output=given.output,
        no_lift=frozenset(given.no_lift),
        free_batch=given.free_batch,
        train_constants=given.train_constants,
    )


def write(found: Import, given: argparse.Namespace) -> None:
    """Write the files of a network into an empty folder."""
    assert found.network is not None
    out: Path = given.out
    if not out.is_dir() or any(out.iterdir()):
        raise Refused(f"--out {out} is not an empty folder")
    if found.provenance["format"] == "onnx":
        from .onnx_source import OnnxSource

        assert isinstance(found.reader, OnnxSource)
        if not found.reader.write_original(out / "original.onnx"):
            found.provenance["original"] = None
            found.provenance["notes"].append(
                "the external weights are too large to copy: the mode original is not available"
            )
    tensors.write(out / "weights.safetensors", found.network.arrays())
    (out / "network.json").write_bytes(found.network.text)
    text = json.dumps(found.provenance, ensure_ascii=False, indent=1)
    (out / "provenance.json").write_text(text + "\n", encoding="utf-8")


def as_json(found: Import) -> dict[str, Any]:
    return {
        "digest": found.network.digest if found.network else None,
        "missing": [asdict(gap) for gap in found.gaps],
        "provenance": found.provenance,
    }


def show(found: Import) -> str:
    lines = []
    if found.gaps:
        lines.append(coverage.table(found.gaps))
    else:
        assert found.network is not None
        ops = ", ".join(f"{each['op']} {each['nodes']}" for each in found.provenance["coverage"])
        lines.append(f"{len(found.network.document['nodes'])} nodes ({ops}), digest {found.network.digest}")
    return "\n".join(lines + [f"note: {note}" for note in found.notes])


def run(arguments: list[str]) -> int:
    given = parser().parse_args(arguments)
    if given.out is None and not given.dry_run:
        raise Refused("--out FOLDER is needed, unless --dry-run is given")
    options = options_of(given)
    found = import_file(given.source, options)
    if found.network is not None and given.name:
        whole = f"{given.name}: {found.network.document['description']}"
        found.network.document["description"] = one_line(whole)
    if found.network is not None and not given.dry_run:
        write(found, given)
    print(json.dumps(as_json(found), ensure_ascii=False, indent=1) if given.json else show(found))
    if found.gaps:
        print(
            f"error: {given.source} is not imported: Assay lacks {plural(len(found.gaps), 'feature')}, "
            f"above all {found.gaps[0].feature} (first node '{found.gaps[0].first}')",
            file=sys.stderr,
        )
        return 2
    return 0


def main(arguments: list[str]) -> int:
    try:
        return run(arguments)
    except Refused as refused:
        print(f"error: {' '.join(str(refused).split())}", file=sys.stderr)
        return 2
    except (MemoryError, RecursionError) as error:
        print(
            f"error: the file is too large or too deep to be imported ({type(error).__name__})",
            file=sys.stderr,
        )
        return 2
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except Exception as error:  # a fault of ours: one line, and the place for a report of it
        last = traceback.extract_tb(error.__traceback__)[-1]
        print(
            f"error: fault of the importer: {type(error).__name__}: {error} "
            f"({Path(last.filename).name}:{last.lineno}); please report it with the file",
            file=sys.stderr,
        )
        return 1


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))
