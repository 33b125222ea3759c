-- WHY: work that wrote nothing is closed by the operator, who notes there what went wrong.
grant insert on afterturn.audit_event_t to afterturn_operator;
