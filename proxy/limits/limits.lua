-- Accounts of keys and teams, as proxy/limits/account.py has them: one call is one decision, over all nodes. KEYS are the accounts' names, one
-- for each subject and all with one hash tag; an account is the keys KEY:w (a hash, seconds of the last minute), KEY:c (a sorted set, open
-- requests), KEY:d:DAY and KEY:m:MONTH (millionths of a dollar). ARGV[1] is what is asked, as JSON. The clock is the server's.
local ask = cjson.decode(ARGV[1])
local clock = redis.call('TIME')
local second = tonumber(clock[1])
local now = second + tonumber(clock[2]) / 1000000

local function whole(number) return string.format('%.0f', number) end

-- The number of a month, of a day since 1970: H. Hinnant, "chrono-compatible low-level date algorithms".
local function month_of(days)
  local z = days + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  return (yoe + era * 400 + (month <= 2 and 1 or 0)) * 12 + month
end

local function day_key(key, at) return key .. ':d:' .. whole(math.floor(at / 86400)) end
local function month_key(key, at) return key .. ':m:' .. whole(month_of(math.floor(at / 86400))) end

local function spend(key, amount, keep_s)
  if amount == 0 then return end
  if redis.call('INCRBY', key, whole(amount)) < 0 then redis.call('SET', key, '0') end
  redis.call('EXPIRE', key, keep_s)
end

local function take(key, at, requests, tokens)
  redis.call('HINCRBY', key .. ':w', 'r' .. whole(at), whole(requests))
  redis.call('HINCRBY', key .. ':w', 't' .. whole(at), whole(tokens))
  redis.call('EXPIRE', key .. ':w', ask.window * 2)
end

-- The account, with what is over forgotten.
local function account(key)
  local found = {requests = 0, tokens = 0, newest = 0, at = {}, r = {}, t = {}}
  local flat = redis.call('HGETALL', key .. ':w')
  for i = 1, #flat, 2 do
    local kind, at, number = string.sub(flat[i], 1, 1), tonumber(string.sub(flat[i], 2)), tonumber(flat[i + 1])
    if at <= second - ask.window then
      redis.call('HDEL', key .. ':w', flat[i])
    else
      found[kind][at] = number
      if kind == 'r' then
        found.requests = found.requests + number
        found.at[#found.at + 1] = at
        if at > found.newest then found.newest = at end
      else
        found.tokens = found.tokens + number
      end
    end
  end
  redis.call('ZREMRANGEBYSCORE', key .. ':c', '-inf', string.format('%.6f', now - ask.remembered))
  found.open = redis.call('ZCOUNT', key .. ':c', '(' .. string.format('%.6f', now), '+inf')
  found.day = tonumber(redis.call('GET', day_key(key, second)) or '0')
  found.month = tonumber(redis.call('GET', month_key(key, second)) or '0')
  return found
end

local function free_in(found, kind, wanted)
  table.sort(found.at)
  for _, at in ipairs(found.at) do
    wanted = wanted - (found[kind][at] or 0)
    if wanted <= 0 then return at + ask.window - now end
  end
  return ask.window
end

-- Seconds until each limit that is passed would not be, -1 where what is open has to end first, -2 where a day or a month has to; and whether
-- the least that is asked for passes none.
local function refusals(found, limits)
  local waits, least_fits = {}, true
  local function past(name, wait)
    waits[#waits + 1] = {name, wait}
  end
  if limits.concurrent and found.open >= limits.concurrent then past('concurrent', -1) end
  if limits.rpm and found.requests + 1 > limits.rpm then past('rpm', free_in(found, 'r', found.requests + 1 - limits.rpm)) end
  least_fits = #waits == 0
  local function amount(name, taken, kind)
    local most = limits[name]
    if not most or taken + ask.full[kind] <= most then return end
    if taken + ask.least[kind] <= most then past(name, -1) return end
    least_fits = false
    past(name, kind == 'tokens' and free_in(found, 't', taken + ask.least[kind] - most) or -2)
  end
  amount('tpm', found.tokens, 'tokens')
  amount('usd_per_day', found.day, 'micro_usd')
  amount('usd_per_month', found.month, 'micro_usd')
  return waits, #waits > 0 and least_fits and found.open == 0
end

local function standings(waits, reduced)
  local out = {}
  for i, key in ipairs(KEYS) do
    local found = account(key)
    local reset = found.newest > 0 and found.newest + ask.window - now or 0
    out[i] = {found.requests, found.tokens, reset, found.open, found.day, found.month, waits and #waits[i] > 0 and waits[i] or 0}
  end
  return cjson.encode({string.format('%.6f', now), out, reduced})
end

local function settle(key, one)
  if redis.call('ZREM', key .. ':c', one.lease) == 0 then return end
  local w, at, tokens = key .. ':w', math.floor(one.at), one.tokens
  local there = at > second - ask.window and redis.call('HEXISTS', w, 'r' .. whole(at)) == 1
  if there then take(key, at, 0, tokens) elseif tokens > 0 then take(key, second, 0, tokens) end
  spend(day_key(key, one.at), one.micro_usd, 172800)
  spend(month_key(key, one.at), one.micro_usd, 2851200)
end

if ask.op == 'reserve' then
  local waits, granted, reduced, again = {}, true, true, true
  for i, key in ipairs(KEYS) do
    local reducible
    again = again and redis.call('ZSCORE', key .. ':c', ask.lease)
    waits[i], reducible = refusals(account(key), ask.limits[i])
    granted = granted and #waits[i] == 0
    reduced = reduced and (#waits[i] == 0 or reducible)
  end
  if again then return standings(nil, true) end
  if not granted and not reduced then return standings(waits, false) end
  local amount = granted and ask.full or ask.least
  for _, key in ipairs(KEYS) do
    take(key, second, 1, amount.tokens)
    redis.call('ZADD', key .. ':c', string.format('%.6f', now + ask.lease_s), ask.lease)
    redis.call('EXPIRE', key .. ':c', ask.remembered * 2)
    spend(day_key(key, second), amount.micro_usd, 172800)
    spend(month_key(key, second), amount.micro_usd, 2851200)
  end
  return standings(nil, not granted)
elseif ask.op == 'settle' then
  for i, key in ipairs(KEYS) do settle(key, ask) end
elseif ask.op == 'renew' then
  for i, key in ipairs(KEYS) do
    redis.call('ZADD', key .. ':c', 'XX', string.format('%.6f', now + ask.lease_s), ask.leases[i])
    redis.call('EXPIRE', key .. ':c', ask.remembered * 2)
  end
else
  return standings(nil, false)
end
