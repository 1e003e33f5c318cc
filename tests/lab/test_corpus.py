"""A cell is a cell: each of the corpus leaves the same record attached and detached, or differs as it says."""

import json
import re

import pytest
from corpus import CELLS
from kernels import Kernel

LIMIT_MB = 900
_VOLATILE = (
    (r"(x{50,}\n?)+", "much\n"),  # first: the others take half a minute for it
    (r"(\x1b|\\u001b)\[[0-9;]*m", ""),
    (r"Cell In\[\d+\]", "Cell In[N]"),
    (r"<ipython-input-\d+-[0-9a-f]+>|/tmp/ipykernel_\d+/\d+\.py", "<cell>"),
    (r"In\[\d+\]", "In[N]"),
    (r"0x[0-9a-f]{6,}", "0x"),
    (r"(CPU times|Wall time): .*", r"\1"),
    (r"(user|sys|total)? ?[\d.]+ (ns|µs|us|ms|s)\b", "T"),
    (r"ThreadPoolExecutor-\d+", "pool"),
    (r".*UserWarning: To exit.*\n.*\n", ""),  # said once a process
    (r" {2,}", "  "),
)


def same(text):
    """Text without what may differ from run to run."""
    for pattern, instead in _VOLATILE:
        text = re.sub(pattern, instead, text)
    return text


def record(home, found):
    """What is kept of a run, as a front end would draw it."""
    shown, streams = [], {}
    for output in home.outputs(found.job.id):
        if output["output_type"] == "stream":
            # Standard output and error reach us by one road, programs' own by another: each keeps its order.
            streams.setdefault(output["name"], []).append(output["text"])
            if shown[-1:] != [output["name"]]:
                shown.append(output["name"])
        elif output["output_type"] == "error":
            shown.append(("error", output["ename"], output["evalue"], where(output["traceback"])))
        else:
            data = {mime: value for mime, value in output["data"].items() if mime != "image/png"}
            shown.append(
                (
                    output["output_type"],
                    sorted(output["data"]),
                    same(json.dumps(data, sort_keys=True, ensure_ascii=False)),
                )
            )
    kept = {name: text for name, pieces in streams.items() if (text := same("".join(pieces)))}
    return [one for one in shown if isinstance(one, tuple)], kept


def where(traceback):
    """The innermost line that a traceback points at. How much it shows around it is IPython's mood."""
    found = re.findall(r"-> *(\d+) *(.*?) *\n", same("\n".join(traceback)) + "\n")
    return found[-1:]


def ending(found):
    """The failure's class, "" for none."""
    return found.outcome.failure.kind if found.outcome.failure is not None else ""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Each cell's two runs, by its name. The detached ones run while the attached ones do."""
    from kernels import Home

    quick = {"LOAM_LEASE_MS": "3000", "LOAM_BEAT_MS": "500", "LOAM_SWEEP_MS": "300", "LOAM_MEMORY_MB": str(LIMIT_MB)}
    home = Home(tmp_path_factory.mktemp("corpus") / "home", **quick)
    home.env.pop("PYTEST_CURRENT_TEST", None)  # ipykernel does not listen to descriptors where it finds it
    kernel = Kernel(home)
    detached, attached = {}, {}
    try:
        for cell in CELLS:
            said = kernel.run(f'%%loam spark --detach --name "{cell.name}"\n{cell.code}')
            assert said.ok, (cell.name, said.error)
            detached[cell.name] = said.run_id
        for cell in CELLS:
            one = Kernel(home) if cell.own_kernel else kernel
            one.run(f"import resource; resource.setrlimit(resource.RLIMIT_DATA, ({LIMIT_MB} << 20, -1))")
            asked = one.send(f'%%loam spark --name "{cell.name}"\n{cell.code}', allow_stdin=False)
            if cell.ends[0] == "KernelLost":
                attached[cell.name] = asked.leased()
            else:
                attached[cell.name] = asked.answer(60).run_id
            if one is not kernel:
                one.close()
        yield (
            home,
            {cell.name: (home.ended(attached[cell.name], 60), home.ended(detached[cell.name], 60)) for cell in CELLS},
        )
    finally:
        kernel.close()
        home.down()


def test_the_corpus_is_large_enough():
    assert len(CELLS) >= 40
    assert len({cell.name for cell in CELLS}) == len(CELLS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_attached_and_detached_agree(runs, cell):
    home, by_name = runs
    here, there = by_name[cell.name]
    if cell.differs:
        ends = (ending(here), ending(there))
        assert all(want in ("*", got) for want, got in zip(cell.ends, ends, strict=True)), (ends, there.job.error)
        return
    assert (ending(here), ending(there)) == (cell.fails, cell.fails), (here.job.error, there.job.error)
    assert record(home, there) == record(home, here)
