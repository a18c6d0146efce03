"""Answers of the name service about key-value pairs and its own settings.

Source: apache/rocketmq: namesrv/.../processor/DefaultRequestProcessor.java
"""

from logherd.service.errors import RequestError
from logherd.service.names.keyvalues import KeyValues
from logherd.service.ports import Answer, Handler, Reply, Request, Session
from logherd.service.properties_text import format_properties_text
from logherd.service.requests import body_reply, header_of
from logherd.service.settings_table import SettingsTable, update_from_text
from logherd.wire.bodies.routes import KVTable
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers.names import KVHeader, KVResponse, NamespaceHeader, PutKVHeader

__all__ = ["ValueNames"]


class ValueNames:
    """Key-value pairs and settings."""

    def __init__(self, values: KeyValues, settings: SettingsTable) -> None:
        self._values = values
        self._settings = settings

    def handlers(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.PUT_KV_CONFIG: self.put,
            RequestCode.GET_KV_CONFIG: self.get,
            RequestCode.DELETE_KV_CONFIG: self.delete,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self.namespace,
            RequestCode.UPDATE_NAMESRV_CONFIG: self.update_settings,
            RequestCode.GET_NAMESRV_CONFIG: self.settings,
        }

    def put(self, request: Request, _session: Session) -> Answer:
        """100."""
        header = header_of(request, PutKVHeader)
        self._values.put(header.namespace, header.key, header.value)
        return Reply()

    def get(self, request: Request, _session: Session) -> Answer:
        """101."""
        header = header_of(request, KVHeader)
        value = self._values.get(header.namespace, header.key)
        if value is None:
            raise RequestError(
                ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace} Key: {header.key}"
            )
        return Reply(header=KVResponse(value=value))

    def delete(self, request: Request, _session: Session) -> Answer:
        """102."""
        header = header_of(request, KVHeader)
        self._values.delete(header.namespace, header.key)
        return Reply()

    def namespace(self, request: Request, _session: Session) -> Answer:
        """219."""
        name = header_of(request, NamespaceHeader).namespace
        values = self._values.namespace(name)
        if values is None:
            raise RequestError(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {name}")
        return body_reply(KVTable(table=dict(values)))

    def update_settings(self, request: Request, _session: Session) -> Answer:
        """318."""
        update_from_text(self._settings, request.body)
        return Reply()

    def settings(self, _request: Request, _session: Session) -> Answer:
        """319."""
        return Reply(body=format_properties_text(self._settings.values()))
