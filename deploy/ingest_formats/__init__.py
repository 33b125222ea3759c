"""Readers of files for `afterturn ingest`: exports of chats, transcripts of agents and meetings, captions."""
