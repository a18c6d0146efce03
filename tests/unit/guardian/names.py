"""What a resolver knows, when a test says it."""

__all__ = ["Names"]


class Names:
    """A resolver to which every name has these addresses."""

    def __init__(self, *hosts: str) -> None:
        self.hosts = [*hosts]

    def find(self, address: str, now: int) -> tuple[str, int] | None:
        return (self.hosts[0], int(address.rpartition(":")[2])) if self.hosts else None

    def has(self, address: str, tried: tuple[str, int]) -> bool:
        return not self.hosts or tried[0] in self.hosts

    def shun(self, address: str, tried: tuple[str, int]) -> None:
        if tried == self.find(address, 0):
            self.hosts.append(self.hosts.pop(0))
