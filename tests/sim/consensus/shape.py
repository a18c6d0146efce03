"""What one seed looks like: sizes, rates, which faults exist at all."""

from dataclasses import asdict, dataclass

from sim.consensus.streams import stream

__all__ = ["KINDS", "Shape", "draw_shape"]

KINDS = (
    "crash",
    "power",
    "pause",
    "partition",
    "one-way",
    "isolate",
    "stall",
    "flush-error",
    "full",
    "clog",
    "reset",
    "change",
    "transfer",
    "wipe",
    "storm",
    "usurp",
    "late-order",
    "brownout",
    "fill",
    "damage",
    "relapse",
    "turncoat",
    "copy-cut",
    "echo",
    "boast",
)


@dataclass(frozen=True, slots=True)
class Shape:
    """Drawn first. Times in milliseconds of virtual time unless named otherwise."""

    founders: int
    spares: int
    clients: int
    faulty_ms: int
    op_gap_ms: int
    delay_min_us: int
    delay_mean_us: int
    loss: float
    duplication: float
    ordered: bool
    drift_ppm: int
    flush_mean_us: int
    apply_delay_ms: int
    image_every: int
    segment_bytes: int
    window_messages: int
    message_bytes: int
    lease_reads: bool
    preferred: int
    fault_gap_ms: int
    kinds: tuple[str, ...]
    small_bytes: int = 0
    patience: tuple[int, ...] = ()
    """Shortest election time-outs that processes have in turn, as while they are being changed; none: all the same."""

    def as_data(self) -> dict[str, object]:
        """For the transcript and the digest."""
        return asdict(self)


def draw_shape(seed: int) -> Shape:
    """The shape of a seed."""
    draw = stream(seed, "config")
    founders = draw.choice((1, 2, 3, 3, 3, 3, 4, 5, 5, 7))
    kinds = tuple(kind for kind in KINDS if draw.random() < 0.5)
    changing = stream(seed, "patience")
    return Shape(
        founders=founders,
        spares=draw.choice((0, 1, 1, 2)),
        clients=draw.randint(1, 4),
        faulty_ms=draw.choice((6_000, 10_000, 16_000)),
        op_gap_ms=draw.choice((20, 60, 200)),
        delay_min_us=draw.choice((0, 500, 5_000, 20_000)),
        delay_mean_us=draw.choice((1_000, 10_000, 40_000)),
        loss=draw.choice((0.0, 0.0, 0.02, 0.1, 0.25)),
        duplication=draw.choice((0.0, 0.05, 0.3)),
        ordered=draw.random() < 0.5,
        drift_ppm=50_000 if draw.random() < 0.1 else 500,
        flush_mean_us=draw.choice((200, 3_000, 30_000)),
        apply_delay_ms=draw.choice((0, 0, 30, 300)),
        image_every=draw.choice((10, 40, 1_000_000)),
        segment_bytes=draw.choice((256, 4_096)),
        window_messages=draw.choice((1, 2, 8)),
        message_bytes=draw.choice((64, 300, 2_000)),
        lease_reads=draw.random() < 0.5,
        preferred=draw.choice((0, 0, 1, 2)),
        fault_gap_ms=draw.choice((250, 600, 1_500)),
        kinds=kinds,
        small_bytes=draw.choice((0, 0, 40, 500)),
        patience=tuple(changing.choices((600, 1_000, 4_000), k=5)) if changing.random() < 0.1 else (),
    )
