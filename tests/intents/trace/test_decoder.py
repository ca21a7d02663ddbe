"""Lines of a trace become digests: whose file it is, what moved, and within which limits."""

import pytest

from scrtune.intents.trace.decoder import TraceDecoder
from scrtune.intents.trace.digest import MAX_SIZES, content_of
from scrtune.intents.trace.names import MAX_NAMES, MAX_PROCESSES

from ...support.trace_lines import HASH, TIERS, explain, line
from .digests import access, digest_of

CONTENT_TIERS = {"/prefix": "prefix"}


def test_a_hash_may_be_explained_by_another_file_and_later() -> None:
    decoder = TraceDecoder(TIERS)
    decoder.feed(line() * 3, "child")
    early = decoder.take()
    assert early is not None
    assert (early.events, early.accesses) == (3, ())
    decoder.feed(explain(HASH, "/scratch/study/data/a"), "parent")
    late = decoder.take()
    assert late is not None
    assert access(late, "write").sizes == {8: 3}
    assert decoder.take(final=True) is None or not late.unresolved


def test_accesses_whose_hash_nobody_explains_are_given_up_and_counted() -> None:
    decoder = TraceDecoder(TIERS)
    decoder.feed(line() * 3)
    decoder.take()
    last = decoder.take(final=True)
    assert last is not None
    assert (last.lines, last.unresolved) == (0, 3)
    assert access(last, "write", "other").sizes == {8: 3}
    assert decoder.take(final=True) is None


def test_an_access_that_names_no_file_is_other_but_not_unresolved() -> None:
    taken = digest_of(line(args={"fhash": ""}))
    assert access(taken, "write", "other").count == 1
    assert taken.unresolved == 0


def test_nothing_fed_is_nothing_taken() -> None:
    decoder = TraceDecoder()
    assert decoder.take() is None
    decoder.feed(b"")
    decoder.feed(b"[\n\n \n,\n]\n")
    assert decoder.take(final=True) is None
    assert decoder.blank == 5


@pytest.mark.parametrize(
    ("path", "tier"),
    [
        ("/cache/job/dataset.1/rank_0", "cache"),
        ("/cache/job/dataset.1/.scr/filemap_0", "scr"),
        ("/prefix/ckpt/rank_0", "prefix"),
        ("/prefix", "prefix"),
        ("/prefix/.scr", "scr"),
        ("/prefix/./x//y", "prefix"),
        ("/prefix/cache/rank_0", "cache"),  # the longest directory wins
        ("/prefixed/rank_0", "other"),
        ("/home/u/.scr/x", "other"),
        ("prefix/relative", "other"),
        ("", "other"),
    ],
)
def test_the_tier_of_a_path(path: str, tier: str) -> None:
    tiers = {"/prefix/": "prefix", "/cache/job": "cache", "/prefix/cache": "cache"}
    assert digest_of(explain(HASH, path) + line(), tiers=tiers).accesses[0].tier == tier


def test_tiers_learnt_later_hold_for_files_explained_before() -> None:
    decoder = TraceDecoder()
    decoder.feed(explain(HASH, "/scratch/study/data/a"))
    assert decoder.take() is not None
    decoder.feed(line())
    decoder.set_tiers(TIERS)
    taken = decoder.take()
    assert taken is not None
    assert access(taken, "write").count == 1


def test_failed_calls_count_but_move_no_bytes() -> None:
    taken = digest_of(explain(HASH, "/scratch/study/data/a") + line(args={"ret": -1}) + line())
    writes = access(taken, "write")
    assert (writes.count, writes.bytes, writes.sizes) == (2, 8, {8: 1})


def test_fread_and_fwrite_return_items() -> None:
    taken = digest_of(line("fwrite", cat="STDIO", args={"ret": 10, "size": 16}))
    assert access(taken, "write", "other").sizes == {160: 1}


@pytest.mark.parametrize(
    ("category", "name"),
    [
        ("checkpoint", "anything"),
        ("CHECKPOINT", "save_shard"),
        ("CK", "save"),
        ("dlio", "PyTorchCheckpointing.save_checkpoint"),
        ("ai", "checkpoint.capture"),
        ("USER", "ckpt.write"),
    ],
)
def test_checkpoint_spans_are_found_by_category_or_name(category: str, name: str) -> None:
    taken = digest_of(line(name, cat=category, dur=2_000_000))
    (span,) = taken.checkpoints
    assert (span.name, span.pid, span.end_s - span.start_s) == (name, 7, 2.0)


def test_other_spans_are_events_but_no_checkpoints_and_no_accesses() -> None:
    taken = digest_of(line("compute", cat="compute") + line("fork") + line("forward", cat="checkpointing"))
    assert (taken.events, taken.checkpoints, taken.accesses) == (3, (), ())


def numbered(template: bytes, numbers: range) -> bytes:
    """`template`, in which NUMBER stands for each of `numbers`, so many times."""
    return b"".join(template.replace(b"NUMBER", b"%d" % number) for number in numbers)


def test_beyond_the_limit_sizes_are_not_told_apart_but_counted() -> None:
    fed = range(MAX_SIZES + 6)
    taken = digest_of(numbered(line(args={"ret": "NUMBER"}).replace(b'"NUMBER"', b"NUMBER"), fed))
    writes = access(taken, "write", "other")
    assert (writes.count, writes.bytes, len(writes.sizes)) == (len(fed), sum(fed), MAX_SIZES)


def test_the_oldest_hashes_are_forgotten_first() -> None:
    decoder = TraceDecoder(TIERS)
    decoder.feed(explain("f0", "/scratch/study/data/0") + line(args={"fhash": "f0"}))
    decoder.feed(numbered(explain("fNUMBER", "/scratch/study/data/NUMBER"), range(1, MAX_NAMES + 1)))
    for number in (0, MAX_NAMES):
        decoder.feed(line(args={"fhash": f"f{number}"}))
    taken = decoder.take(final=True)
    assert taken is not None
    assert access(taken, "write").count == 2
    assert (access(taken, "write", "other").count, taken.unresolved) == (1, 1)


def test_processes_beyond_the_limit_are_dropped_until_older_ones_fall_silent() -> None:
    template = line(pid="NUMBER").replace(b'"NUMBER"', b"NUMBER")
    decoder = TraceDecoder()
    decoder.feed(numbered(template, range(MAX_PROCESSES + 2)))
    first = decoder.take(final=True)
    decoder.feed(numbered(template, range(MAX_PROCESSES + 10, MAX_PROCESSES + 14)))
    second = decoder.take(final=True)
    assert first is not None
    assert second is not None
    assert (first.events, first.dropped) == (MAX_PROCESSES, {"too many processes": 2})
    assert (second.events, second.dropped) == (4, {})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mp_rank_00_model_states.pt", "model"),
        ("layer_01-model_00-model_states.pt", "layer"),
        ("bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", "optimizer"),
        ("model_optim_rng.pt", "optimizer"),
        ("model-00001-of-00002.safetensors", "model"),
        ("PYTORCH_MODEL.bin", "model"),
        ("optimizer-3.pt", "optimizer"),
        ("layer-12-0.pt", "layer"),
        ("weights.h5", "model"),
        ("__0_0.distcp", "other"),
        ("sw4.cycle=000100.sw4checkpoint", "other"),
        ("", "other"),
    ],
)
def test_what_a_file_holds_is_told_by_its_name_alone(name: str, content: str) -> None:
    assert content_of(name) == content
    taken = digest_of(explain(HASH, f"/prefix/model/{name or 'x'}") + line(), tiers=CONTENT_TIERS)
    found = access(taken, "write")
    assert (found.tier, found.content) == ("prefix", content)


def test_accesses_are_apart_by_what_the_files_hold() -> None:
    paths = ("/prefix/model.pt", "/prefix/optim.pt", "/prefix/log", "/prefix/.scr/model.pt")
    lines = b"".join(
        explain(f"f{number}", path) + line(args={"fhash": f"f{number}", "ret": number + 1})
        for number, path in enumerate(paths)
    )
    assert [
        (each.tier, each.content, each.bytes) for each in digest_of(lines, tiers=CONTENT_TIERS).accesses
    ] == [
        ("prefix", "other", 3),
        ("prefix", "model", 1),
        ("prefix", "optimizer", 2),
        ("scr", "other", 4),
    ]
