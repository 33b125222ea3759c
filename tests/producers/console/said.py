"""What tests of the console have tenants say."""

from uuid import uuid4

from tests.producers.conftest import Tenant


async def remember(tenant: Tenant, *texts: str, session: str = "monday", bank: str = "default") -> list[str]:
    """Store a turn for each text; returns the ids of the units."""
    units = []
    for text in texts:
        name = uuid4().hex[:6]
        said = {"bank": bank, "session_id": session, "turn_id": name, "messages": [{"role": "user", "content": text}]}
        assert (await tenant.http.post("/api/v1/turns", json=said)).status_code == 201
        shown = await tenant.http.get(f"/api/v1/turns/{session}/{name}", params={"bank": bank})
        units += [one["unit_id"] for one in shown.json()["messages"]]
    return units
