"""`afterturn bench recall --quality`: whether the memory finds what a question's answer stands in, over HTTP.

Public names: `read` (formats), `measured` (run), `Figures` (figures).
"""
