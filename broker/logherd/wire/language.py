"""The client languages that frames name, by text in JSON headers and by ordinal in binary ones.

Source: apache/rocketmq: remoting/src/main/java/org/apache/rocketmq/remoting/protocol/LanguageCode.java
"""

__all__ = ["LANGUAGES", "UNKNOWN_LANGUAGE", "language_name", "language_ordinal"]

LANGUAGES = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST",
    "NODE_JS",
)  # fmt: skip
UNKNOWN_LANGUAGE = "OTHER"
_ORDINALS = {name: ordinal for ordinal, name in enumerate(LANGUAGES)}


def language_name(ordinal: int) -> str:
    """The name of an ordinal; OTHER for one that we do not know."""
    return LANGUAGES[ordinal] if 0 <= ordinal < len(LANGUAGES) else UNKNOWN_LANGUAGE


def language_ordinal(name: str) -> int:
    """The ordinal of a name; that of OTHER for one that we do not know."""
    return _ORDINALS.get(name, _ORDINALS[UNKNOWN_LANGUAGE])
