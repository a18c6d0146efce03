"""Who may reach the group: encryption, authentication, network."""

from typing import Literal

from pydantic import Field, model_validator

from logherd_operator.spec.base import DnsName, Fragment, Model

__all__ = ["Auth", "Issuance", "IssuerRef", "NetworkPolicy", "Tls"]

Mode = Literal["Disabled", "Permissive", "Required"]


class IssuerRef(Model):
    """A cert-manager issuer."""

    name: DnsName = Field(description="Name of the issuer.")
    kind: Literal["Issuer", "ClusterIssuer"] = Field(default="Issuer", description="Its kind.")


class Issuance(Model):
    """Certificates made by cert-manager."""

    issuer_ref: IssuerRef = Field(description="Who signs.")


class Tls(Model):
    """Encryption of client connections."""

    mode: Mode = Field(default="Disabled", description="Not yet: other modes are refused. One step per change.")
    secret_name: DnsName | None = Field(default=None, description="Secret with the certificate.")
    cert_manager: Issuance | None = Field(default=None, description="Or who makes it.")

    @model_validator(mode="after")
    def _one_source(self) -> "Tls":
        sources = (self.secret_name is not None) + (self.cert_manager is not None)
        if self.mode != "Disabled" and sources != 1:
            raise ValueError(f"mode {self.mode} needs exactly one of secretName and certManager")
        return self


class Auth(Model):
    """Authentication of clients."""

    mode: Mode = Field(default="Disabled", description="Not yet: other modes are refused. One step per change.")


class NetworkPolicy(Model):
    """Which pods may connect."""

    enabled: bool = Field(default=True, description="Make a NetworkPolicy.")
    client_selectors: tuple[Fragment, ...] = Field(
        default=({"podSelector": {"matchLabels": {"logherd.dev/client": "true"}}},),
        max_length=20,
        description="Clients.",
    )
    metrics_selectors: tuple[Fragment, ...] = Field(default=(), max_length=20, description="Who may scrape metrics.")
