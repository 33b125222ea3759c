"""Statements that lock the places of an erasure, in the order of store/SCHEMA.md.

A writer that appends to a bank, counts or embeds for it holds the bank's lock shared meanwhile.
"""

from sqlalchemy import Uuid, bindparam, func, select, text

from store.log.locks import ENTER_LOG, hold_lock, share_lock

LOCK_LOG = select(ENTER_LOG)
# Held briefly, for one host: afterwards, the writes that had begun before are in the log.
LOCK_HOST = select(func.pg_advisory_xact_lock_shared(func.afterturn.log_lock()), hold_lock("host", "host"))
# Taken when a bank ends, because its quota is then recounted.
LOCK_QUOTA = select(func.afterturn.lock_quota(bindparam("host", type_=Uuid)))
SHARE_QUOTA = select(share_lock("quota", "host"))
LOCK_BANK = select(hold_lock("bank", "bank"))
# In the order in which all writers lock banks.
LOCK_BANKS = text("""
    select pg_advisory_xact_lock(k.key)
      from (select distinct afterturn.lock_key('bank', b.bank) as key
              from unnest(cast(:banks as uuid[])) as b(bank) order by 1) k""")
