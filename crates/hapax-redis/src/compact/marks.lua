-- Marks a member of each set if no generation has it, looks whether one has, or forgets it. KEYS: names of sets, without the generation.
-- ARGV: which of these; a generation's width in milliseconds; how many older ones count; for each key its member.
-- Answers, for each: for how many milliseconds it was known, or -1.
local what, width_ms, older = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
local newest = math.floor(now_ms / width_ms)
local left_ms = (newest + older + 1) * width_ms - now_ms

-- For how long a generation has a member that is not younger than this.
local function known(key, member, youngest)
  local command = what == 'forget' and 'SREM' or 'SISMEMBER'
  local left = -1
  for age = older, youngest, -1 do
    if redis.call(command, key .. newest - age, member) == 1 then
      left = left_ms - age * width_ms
    end
  end
  return left
end

-- Whether all of the newest generation's sets are there, and so expire: the usual case, found out by one command instead of one for each.
local sets, all_expire = {}, true
if what == 'mark' then
  for i, key in ipairs(KEYS) do
    sets[i] = key .. newest
  end
  all_expire = redis.call('EXISTS', unpack(sets)) == #sets
end

local answers = {}
for i, key in ipairs(KEYS) do
  local member = ARGV[i + 3]
  if what ~= 'mark' then
    answers[i] = known(key, member, 0)
  else
    local set = sets[i]
    if redis.call('SADD', set, member) == 0 then
      answers[i] = left_ms
    else
      answers[i] = known(key, member, 1)
      if answers[i] >= 0 then
        redis.call('SREM', set, member)
        all_expire = false -- it may have been the last one
      elseif not all_expire and redis.call('SCARD', set) == 1 then
        redis.call('PEXPIRE', set, left_ms)
      end
    end
  end
end
return answers
