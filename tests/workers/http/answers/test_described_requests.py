"""Requests made at random from the OpenAPI description, right and wrong ones, are answered as it says."""

import contextlib
import json

import hypothesis
import jsonschema
import orjson
import pytest
from service_world import world_in

from neardup_workers.doing.http.described.requests import JSON_LINES, description
from neardup_workers.doing.http.described.schemas import link, listed, record

BATCH = "/v1/check:batch"
EXAMPLES = 12
NAMES = (
    "status_code_conformance", "content_type_conformance", "response_schema_conformance", "unsupported_method",
    "response_headers_conformance", "positive_data_acceptance", "negative_data_rejection", "allow_header_conformance",
)  # fmt: skip


def requests_of(world):
    """The description that a service serves, with the lines of a batch as a list of documents: in the description they
    are a text, of which there is no wrong one."""
    import schemathesis  # here, because make check leaves these tests out

    @schemathesis.serializer(JSON_LINES)
    def _lines(context, value):
        if isinstance(value, (str, bytes)):  # made to be no list: lines that are no JSON
            return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        return "\n".join(map(json.dumps, value if isinstance(value, list) else [value])).encode()

    described = world.ask("GET", "/openapi.json").json()
    content = described["paths"][BATCH]["post"]["requestBody"]["content"]
    content[JSON_LINES]["schema"] = listed(link("Document"))
    schema = schemathesis.openapi.from_dict(described)
    schema.app = world.app
    return schema


def valid(schema):
    """Whether a value has a schema that refers to components of the description."""
    components = {"components": {"schemas": description(needs_text=True)["components"]["schemas"]}}
    return jsonschema.Draft202012Validator({**components, **schema}).is_valid


class Lines:
    """A batch answers each line that the description allows with an Answer, each other line
    with its problem, and at the end says how many they were. ``seen`` counts the lines of both kinds."""

    def __init__(self):
        self.seen = {True: 0, False: 0}
        self._allowed, self._answer = valid(link("Document")), valid(link("Answer"))
        self._error = valid(record({"id": {"type": "string"}, "error": link("Problem")}, ("id",)))

    def each_line_is_answered(self, context, response, case):
        """A check of schemathesis."""
        if response.status_code != 200:
            return
        body = response.request.body or b""
        lines = (body.encode() if isinstance(body, str) else body).split(b"\n")
        lines = lines if lines[-1].strip() else lines[:-1]
        *answers, done = map(json.loads, response.content.splitlines())
        assert done == {"done": len(lines)}
        assert len(answers) == len(lines)
        for line, answer in zip(lines, answers, strict=True):
            is_allowed = self._is_allowed(line)
            self.seen[is_allowed] += 1
            assert self._answer(answer) if is_allowed else self._error(answer), (line, answer)
            assert is_allowed or answer["error"]["status"] == 422, (line, answer)

    def _is_allowed(self, line):
        try:
            orjson.loads(line)  # strict, but it reads a whole number of more than 64 bits as a float
        except orjson.JSONDecodeError:
            return False
        return self._allowed(json.loads(line))


def asked(operation, mode, checks):
    """How many requests of a mode were made and answered as ``checks`` want it."""
    count = 0

    @hypothesis.settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @hypothesis.given(operation.as_strategy(generation_mode=mode))
    def ask(case):
        nonlocal count
        count += 1
        case.call_and_validate(checks=checks, timeout=60)  # kernels may be compiled meanwhile

    with contextlib.suppress(hypothesis.errors.Unsatisfiable):  # a request without values has no wrong ones
        ask()
    return count


@pytest.mark.long
def test_requests_made_at_random_from_the_description_are_answered_as_it_says(tmp_path):
    """Valid requests are accepted and wrong ones refused, without a 5xx, and with no status, type, member or method
    outside the OpenAPI description. A batch is accepted, and refuses its wrong lines."""
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    conforms = [not_a_server_error, *(getattr(checks, name) for name in NAMES)]
    lines = Lines()
    of_batches = [one for one in conforms if one is not checks.negative_data_rejection] + [lines.each_line_is_answered]
    count = 0
    with world_in(tmp_path, keep_texts=True) as world:
        for result in requests_of(world).get_all_operations():
            operation = result.ok()
            if operation.path != "/v1/events":  # its answer has no end; test_events reads it
                for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
                    count += asked(operation, mode, of_batches if operation.path == BATCH else conforms)
    assert count > 300
    assert min(lines.seen.values()) >= EXAMPLES, lines.seen
