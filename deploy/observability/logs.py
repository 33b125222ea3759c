"""Configures logging to standard error, as text or JSON; of libraries' messages only what cannot hold content."""

import logging
import sys
from contextlib import suppress
from typing import Any

import orjson
import structlog
from structlog.typing import EventDict, Processor

from deploy.settings import LogFormat, LogSettings
from store.tracing import current_traceparent

#: Longest part of a library's message that is logged, in characters.
FOREIGN_LENGTH = 200


def configure_logging(settings: LogSettings) -> None:
    """Set up logging for this process; call it once, before anything is logged."""
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _add_trace,
            *_choose_renderers(settings.format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_choose_logger_factory(settings.format),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[_Foreign()], force=True)


def _add_trace(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Add the current trace and span id to a log line, if tracing is on."""
    if traceparent := current_traceparent():
        _, event["trace_id"], event["span_id"], _ = traceparent.split("-")
    return event


class _Foreign(logging.Handler):
    """Logs messages of libraries: the logger's name, the first line of the message template, the error's class.

    Arguments, reprs and tracebacks are left out: a driver's error repeats the statement's parameters, which are stored
    texts.
    """

    def emit(self, record: logging.LogRecord) -> None:
        said = str(record.msg).partition("\n")[0][:FOREIGN_LENGTH]
        error = record.exc_info and record.exc_info[0]
        told: dict[str, Any] = {"logger": record.name, "said": said}
        if error:
            told["error"] = error.__name__
        structlog.get_logger("library").log(record.levelno, "library", **told)


def _choose_renderers(form: LogFormat) -> list[Processor]:
    if form is LogFormat.JSON:
        return [structlog.processors.JSONRenderer(serializer=orjson.dumps)]
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]


def _choose_logger_factory(form: LogFormat) -> Any:
    if form is LogFormat.JSON:
        return structlog.BytesLoggerFactory(_drop_failures(sys.stderr.buffer))
    return structlog.PrintLoggerFactory(_drop_failures(sys.stderr))


def _drop_failures(stream: Any) -> Any:
    """Return the stream in a wrapper that ignores write errors; structlog needs only its `write` and `flush`."""
    return _BestEffort(stream)


class _BestEffort:
    """A stream that drops what it cannot write, so that a full disk does not fail a call because of its log line."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, said: Any) -> None:
        with suppress(OSError):
            self._stream.write(said)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()
