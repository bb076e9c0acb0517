"""A second service that reads the window of another one, for dashboards."""

import json
from contextlib import closing

import pytest
from service_world import NEAR, TEXT, ask_all, world_in

from neardup_workers.doing.http.view.reading import Following, check_window, started_reading
from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.log import Log


def test_a_service_that_follows_reads_what_another_one_commits(tmp_path, monkeypatch):
    """Lists, verdicts, sources, figures and removals, at each look; what needs the window is 501, and nothing is
    written."""
    looking = []
    monkeypatch.setattr(Following, "start", lambda following: looking.append(following))
    monkeypatch.setattr(Following, "stop", lambda following: None)
    with world_in(tmp_path) as world:
        world.check("a", TEXT, source="coast.example")
        check_window(world.settings, world.keeper.log.path)
        broken = []
        running = started_reading(world.settings, world.keeper.log.path, lambda: broken.append(1))

        def asked(method, path, **options):
            [answer] = ask_all(running.app, [(method, path, options)])
            return answer

        def latest():
            looking[0].look()
            return [one["id"] for one in asked("GET", "/v1/figures").json()["present"]["latest"]]

        for id_ in "bc":
            world.check(id_, NEAR)
        assert latest() == ["c", "b"]
        assert asked("GET", "/v1/documents/b").json()["duplicate_of"] == "a"
        assert asked("GET", "/v1/clusters").json()["clusters"][0]["size"] == 3
        world.ask("GET", "/v1/sources")  # it counts the documents that wait
        assert asked("GET", "/v1/sources").json()["count"] == 2
        world.ask("DELETE", "/v1/documents/c")
        assert latest() == ["b"]
        assert asked("GET", "/v1/documents/c").status_code == 404
        world.ask("POST", "/v1/clusters/0?muted=true")
        assert (latest(), asked("GET", "/v1/clusters").json()["clusters"]) == ([], [])
        sent = {"json": {"id": "d", "text": TEXT}}
        for method, path, options in (
            ("POST", "/v1/check", sent), ("DELETE", "/v1/documents/a", {}), ("GET", "/v1/documents/a/near", {}),
            ("POST", "/v1/clusters/0?muted=false", {}), ("GET", "/v1/why?a=a&b=b", {}),
        ):  # fmt: skip
            answer = asked(method, path, **options)
            assert (answer.status_code, answer.json()["reason"]) == (501, "needs_window")
        assert "neardup_service_window_documents 3.0" in asked("GET", "/metrics").text
        assert json.loads(asked("GET", "/readyz").content) == {"status": "ok"}
        assert broken == []


def test_a_window_of_other_settings_is_not_followed(tmp_path):
    """The settings that differ are named. Nor one that is not there."""
    with pytest.raises(Failure, match="there is no window"):
        check_window(ServeSettings(), tmp_path / "window.sqlite")
    made = ServeSettings(threshold=0.7)
    with closing(Log(tmp_path, {"signing": made.signing_fingerprint}, "normal", made)) as log:
        with pytest.raises(Failure, match=r"other settings \(threshold is 0\.5, but was 0\.7\)"):
            check_window(ServeSettings(threshold=0.5), log.path)
        check_window(made, log.path)
