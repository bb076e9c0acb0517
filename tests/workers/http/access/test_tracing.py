"""A span of OpenTelemetry for each request, where it was loaded before the service."""

import sys

import pytest
from service_world import TEXT, ask_all, world_in

from neardup_workers.doing.http.access.tracing import traced


def test_nothing_is_traced_unless_the_process_runs_under_it(monkeypatch):
    """The application is the same object."""
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    assert traced(print) is print


def test_a_request_has_a_span_without_the_id_of_its_document(tmp_path, monkeypatch):
    """It is a child of the span that the client names, with method, path and status."""
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    parent = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    with world_in(tmp_path) as world:
        app = traced(world.guarded)
        ask_all(app, [("POST", "/v1/check", {"json": {"id": "secret-id", "text": TEXT}, "headers": parent})])
        ask_all(app, [("GET", "/v1/documents/other-id?collection=", {})])
    first, second = spans.get_finished_spans()
    assert (first.name, second.name) == ("POST /v1/check", "GET /v1/documents/*")
    assert (f"{first.context.trace_id:x}", f"{first.parent.span_id:x}") == ("a" * 32, "b" * 16)
    assert [one.attributes["http.response.status_code"] for one in (first, second)] == [200, 404]
    assert "-id" not in str([one.attributes for one in (first, second)])
