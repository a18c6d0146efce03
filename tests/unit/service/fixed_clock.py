"""A clock that moves only when told to."""


class FixedClock:
    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.wall = now_ms
        self.steady = 0

    def now_ms(self) -> int:
        return self.wall

    def monotonic_ms(self) -> int:
        return self.steady

    def advance(self, ms: int) -> None:
        self.wall += ms
        self.steady += ms
