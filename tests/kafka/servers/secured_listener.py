"""A listener of a broker that requires something of its clients, instead of the one for proxies."""

from __future__ import annotations

from collections.abc import Mapping

from broker import Broker
from ports import HOST


def require(broker: Broker, name: str, protocol: str, settings: Mapping[str, str]) -> str:
    """Give a broker that is not started yet the listener, with its other settings; returns its address."""
    listeners = {"PLAINTEXT": broker.port, name: broker.proxied_port}
    advertised = [f"{one}://{HOST}:{port}" for one, port in listeners.items()]
    broker.settings |= {
        "listeners": ",".join([*advertised, f"CONTROLLER://{HOST}:{broker.controller_port}"]),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{name}:{protocol},CONTROLLER:PLAINTEXT",
        **settings,
    }
    return f"{HOST}:{broker.proxied_port}"
