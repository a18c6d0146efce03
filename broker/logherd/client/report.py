"""What a load run measured, as values and as text."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Latency", "LoadReport"]


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from writing a request to reading its answer; 0 in all fields when there was none."""

    p50: float
    p99: float
    p999: float
    maximum: float

    @staticmethod
    def of(seconds: "Sequence[float] | array[float]") -> "Latency":
        """Nearest-rank percentiles of measured seconds."""
        if not seconds:
            return Latency(0, 0, 0, 0)
        ordered = sorted(seconds)
        last = len(ordered) - 1

        def at(share: float) -> float:
            return 1000 * ordered[min(last, int(share * len(ordered)))]

        return Latency(at(0.5), at(0.99), at(0.999), 1000 * ordered[last])


@dataclass(frozen=True, slots=True)
class LoadReport:
    """One run, without its warm-up. `refused` counts answers that were no success by response code, `refusal` is the
    remark of the first; `lost` counts requests whose connection ended first; `client_cpu_seconds` is what the generator
    itself took of the processor."""

    messages: int
    bytes: int
    seconds: float
    latency: Latency
    refused: Mapping[int, int]
    lost: int
    client_cpu_seconds: float
    refusal: str = ""

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds if self.seconds else 0.0

    @property
    def client_us_per_message(self) -> float:
        """Microseconds of processor time that the generator needs for one message."""
        return 1e6 * self.client_cpu_seconds / self.messages if self.messages else 0.0

    def text(self) -> str:
        """A few lines for people."""
        latency = self.latency
        percentiles = f"p50 {latency.p50:.2f} ms, p99 {latency.p99:.2f} ms, p99.9 {latency.p999:.2f} ms"
        lines = [
            f"{self.messages} messages, {self.bytes / 1e6:.1f} MB in {self.seconds:.2f} s",
            f"rate     {self.rate:,.0f} messages/s, {self.bytes / 1e6 / max(self.seconds, 1e-9):.1f} MB/s",
            f"latency  {percentiles}, max {latency.maximum:.2f} ms",
            f"client   {self.client_us_per_message:.2f} us of processor time per message",
        ]
        lines.extend(f"refused  {count} with code {code}" for code, count in sorted(self.refused.items()))
        if self.lost:
            lines.append(f"lost     {self.lost} without an answer")
        return "\n".join(lines)
