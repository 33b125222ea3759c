"""The scripts that read a turn queue on its server and take anything that a publisher wrote there.

A publisher's user may push to the list and set fields of the bodies, so a script trusts the type of neither, nor the
size of an id or a body: what no worker may hold is answered by its size alone.

KEYS of each script: list, bodies, in work, later, attempts, failures.
"""

#: A key that a publisher made anew with another type than its own holds no message: it is deleted.
REPAIR = """
local function repair(key, kind)
    local found = redis.call('type', key).ok
    if found ~= kind and found ~= 'none' then redis.call('unlink', key) end
end
repair(KEYS[1], 'list')
repair(KEYS[2], 'hash')
"""
#: ARGV: now, the most ids that are looked at, the most messages, their bytes in all, the largest body, the longest id.
#: Answers how many ids were looked at, and of each message its id, its body ('' where it is too large), its size, how
#: often it was put back, how many failures count. An id that is too long is replaced by its digest. Ids without a
#: body, and repeated ones, are dropped.
FETCH = f"""{REPAIR}
local due = redis.call('zrangebyscore', KEYS[4], '-inf', ARGV[1], 'limit', 0, ARGV[2])
for _, id in ipairs(due) do
    redis.call('zrem', KEYS[4], id)
    redis.call('rpush', KEYS[1], id)
end
local most, room, largest, longest = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local found, looked = {{}}, 0
while looked < tonumber(ARGV[2]) and #found < most do
    local id = redis.call('lpop', KEYS[1])
    if not id then break end
    looked = looked + 1
    local size = redis.call('hstrlen', KEYS[2], id)
    if size > 0 or redis.call('hexists', KEYS[2], id) == 1 then
        local held = size > largest and 0 or size
        if #id > longest then
            local known = 'sha1:' .. redis.sha1hex(id)
            redis.call('hset', KEYS[2], known, held > 0 and redis.call('hget', KEYS[2], id) or '')
            redis.call('hdel', KEYS[2], id)
            id = known
        end
        if held > room then
            redis.call('lpush', KEYS[1], id)
            break
        end
        if redis.call('sadd', KEYS[3], id) == 1 then
            room = room - held
            local body = held > 0 and redis.call('hget', KEYS[2], id) or ''
            local attempts, failures = redis.call('hget', KEYS[5], id), redis.call('hget', KEYS[6], id)
            table.insert(found, {{id, body, size, attempts or '0', failures or '0'}})
        end
    end
end
return {{looked, found}}
"""
#: ARGV: id. A message that another consumer took over is left alone.
ACKNOWLEDGE = """
if redis.call('srem', KEYS[3], ARGV[1]) > 0 then
    redis.call('hdel', KEYS[2], ARGV[1])
    redis.call('hdel', KEYS[5], ARGV[1])
    redis.call('hdel', KEYS[6], ARGV[1])
end
"""
#: ARGV: id, when it is due, 1 for a failure that counts, else 0.
PUT_BACK = """
if redis.call('srem', KEYS[3], ARGV[1]) > 0 then
    redis.call('hincrby', KEYS[5], ARGV[1], 1)
    if ARGV[3] == '1' then redis.call('hincrby', KEYS[6], ARGV[1], 1) end
    redis.call('zadd', KEYS[4], ARGV[2], ARGV[1])
end
"""
#: ARGV: the namespace, the queue, the most ids. Where the list is empty, puts ids of bodies into it that are nowhere
#: else: their publisher did not push them, or could not.
FIND_UNLISTED = f"""{REPAIR}
if redis.call('llen', KEYS[1]) > 0 then return 0 end
local held, known = {{}}, redis.call('zcard', KEYS[4])
for _, worker in ipairs(redis.call('zrange', ARGV[1] .. ':__heartbeats__', 0, -1)) do
    local key = ARGV[1] .. ':__acks__.' .. worker .. '.' .. ARGV[2]
    table.insert(held, key)
    known = known + redis.call('scard', key)
end
if redis.call('hlen', KEYS[2]) <= known then return 0 end
local added = 0
for _, id in ipairs(redis.call('hrandfield', KEYS[2], ARGV[3])) do
    local listed = redis.call('zscore', KEYS[4], id)
    for _, key in ipairs(held) do listed = listed or redis.call('sismember', key, id) == 1 end
    if not listed then
        redis.call('rpush', KEYS[1], id)
        added = added + 1
    end
end
return added
"""
