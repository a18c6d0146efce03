"""Small configuration values that brokers and tools keep in the name service, by namespace and key.

`mqadmin updateTopic -o` writes the queue counts of ordered topics here.

Source: apache/rocketmq: namesrv/src/main/java/org/apache/rocketmq/namesrv/kvconfig/KVConfigManager.java
"""

from collections.abc import Callable, Mapping
from typing import Final

from logherd.service.errors import RequestError
from logherd.wire.bodies import encode_body
from logherd.wire.codes import ResponseCode

__all__ = ["ORDER_TOPICS", "KeyValues"]

ORDER_TOPICS = "ORDER_TOPIC_CONFIG"
BYTES_MAX: Final = 4 << 20
"""Of all values as JSON. All are written with each change, while the loop waits, and each broker that registers is told
those of ordered topics in one frame."""

Table = dict[str, dict[str, str]]


class KeyValues:
    """Namespaces of string values. Every change calls `save` with the whole table before it is answered."""

    def __init__(self, table: Mapping[str, Mapping[str, str]] | None = None, *, save: Callable[[Table], None]) -> None:
        self._table: Table = {name: dict(values) for name, values in (table or {}).items()}
        self._save = save
        self._size = len(encode_body(self._table))

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> Mapping[str, str] | None:
        """All values of a namespace; None if it has none."""
        return self._table.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set one value. Raises RequestError 29 if there is no room for it, and what `save` raises; nothing has changed
        then."""
        self._replace(namespace, {**self._table.get(namespace, {}), key: value})

    def delete(self, namespace: str, key: str) -> None:
        """Remove one value; removing what is not there changes nothing and is no error."""
        values = self._table.get(namespace, {})
        if key in values:
            self._replace(namespace, {name: value for name, value in values.items() if name != key})

    def _replace(self, namespace: str, values: dict[str, str]) -> None:
        table = {name: known for name, known in self._table.items() if name != namespace}
        if values:
            table[namespace] = values
        size = len(encode_body(table))
        if self._size < size > BYTES_MAX:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER, f"all values would take {size} bytes, at most {BYTES_MAX} are kept"
            )
        self._save(table)
        self._table, self._size = table, size
