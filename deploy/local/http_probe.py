"""Asks a process of this machine whether it serves."""

import http.client


def fetch_answer(host: str, port: int, path: str, timeout_s: float) -> bytes | None:
    """Return the body of the answer to a GET, or None unless its status is 200."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.read() if answer.status == http.client.OK else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
