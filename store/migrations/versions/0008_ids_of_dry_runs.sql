-- The ids that dry runs of imports were given are deleted when they end.
grant delete on afterturn.imported_id_t to afterturn_app;
