"""With a key, only the page and health checks are public; without one, other sites are rejected."""

import pytest
from starlette.routing import Route

from elmo.serve.app import PUBLIC_PATHS
from elmo.tasks import load
from tests.serve.conftest import serving

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
UNKNOWN = (
    "/%2Fmodels",
    "/nothing",
    "/models/",
    "/page/../models",
    "/page/nothing.js",
    "/docs/",
    "/health/x",
    "/v1",
)
KEY = {"Authorization": "Bearer secret"}
WRONG = ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer"}, {"Cookie": "key=secret"})


def is_public(path: str) -> bool:
    return path in (*PUBLIC_PATHS, "/page/main.js")


def list_paths(client) -> list[str]:
    """Every path that the application routes, with names filled in."""
    paths = ["/page/main.js"]

    def collect(routes):
        for route in routes:
            if isinstance(route, Route):
                paths.append(route.path.replace("{name}", "places").replace("{name:path}", "tiny"))
            collect(getattr(route, "routes", None) or getattr(getattr(route, "original_router", None), "routes", []))

    collect(client.app.routes)
    return sorted(set(paths))


@pytest.fixture(scope="module")
def locked(language_model, tagger):
    """A server with a key and with every route there is."""
    options = {"tasks": {"places": load(tagger)}, "api_key": "secret"}
    with serving(language_model, **options) as client:
        yield client


def test_no_route_and_no_method_is_open_without_the_key(locked):
    paths = list_paths(locked)
    assert {"/embed", "/tasks/places", "/metrics", "/v1/models", "/docs"} <= set(paths)
    for path in (*paths, *UNKNOWN):
        for method in METHODS:
            is_open = is_public(path) and method in ("GET", "HEAD") and path in paths
            for headers in WRONG:
                for content in (None, b"{}"):
                    response = locked.request(method, path, headers=headers, content=content, follow_redirects=False)
                    if is_open:
                        assert response.status_code in (200, 405), (method, path)
                    else:
                        assert response.status_code == 401, (method, path, headers)
                        assert method == "HEAD" or response.json()["error"]["code"] == "unauthorized"


def test_with_the_key_every_route_is_reached(locked):
    for path in list_paths(locked):
        for method in ("GET", "POST", "OPTIONS"):
            response = locked.request(method, path, headers=KEY, content=b"{}" if method == "POST" else None)
            assert response.status_code in (200, 405, 422), (method, path, response.text)


def test_a_prefix_does_not_open_other_paths(locked):
    for prefix in ("/docs", "/page", "/elmo"):
        locked.app.root_path = prefix
        try:
            assert locked.get(f"{prefix}/models").status_code == 401
            assert locked.get(f"{prefix}models").status_code == 401
            assert locked.get(f"{prefix}/docs").status_code in (200, 401)
        finally:
            locked.app.root_path = ""


def test_the_key_is_checked_before_the_body_is_read(locked):
    response = locked.post("/embed", content=b"x" * 10_000_000)
    assert response.status_code == 401


@pytest.mark.parametrize(
    ("headers", "is_allowed"),
    [
        ({}, True),  # a program
        ({"Origin": "http://localhost"}, True),  # the page itself
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "http://localhost:9999"}, False),  # another program's page on this machine
        ({"Origin": "null"}, False),
        ({"Origin": "https://evil.example", "Content-Type": "text/plain"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://other.localhost"}, False),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://behind-a-proxy.example"}, True),
        ({"Origin": "https://friend.example"}, True),
        ({"Origin": "https://named.example"}, True),
    ],
)
def test_pages_of_other_sites_cannot_make_the_server_compute(language_model, headers, is_allowed):
    options = {"cors_origins": ("https://friend.example",), "allowed_hosts": ("named.example",)}
    with serving(language_model, **options) as client:
        response = client.post("/embed", content=b'{"sentences": "a bank"}', headers=headers)
        assert response.status_code == (200 if is_allowed else 403)
        if not is_allowed:
            assert response.json()["error"]["code"] == "cross_site"
        assert client.get("/models", headers=headers).status_code == 200  # reading is the browser's to refuse


def test_a_preflight_of_an_allowed_site_needs_no_key_but_its_request_does(language_model):
    origin = {"Origin": "https://friend.example"}
    with serving(language_model, api_key="secret", cors_origins=("https://friend.example",)) as client:
        preflight = {
            **origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization",
        }
        assert client.options("/embed", headers=preflight).status_code == 200
        evil = {**preflight, "Origin": "https://evil.example"}
        assert "access-control-allow-origin" not in client.options("/embed", headers=evil).headers
        refused = client.post("/embed", json={"sentences": "a"}, headers=origin)
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == "https://friend.example"
