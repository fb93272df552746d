-- Claims each key that has nothing. ARGV, for each: attempt (8 bytes), fingerprint (16 bytes or none), lease in milliseconds.
-- Answers, for each: the token; or what is kept, and for how many milliseconds.
local now = redis.call('TIME')
local token = string.format('%016.0f', now[1] * 1000000 + now[2])
local answers = {}
for i, key in ipairs(KEYS) do
  local attempt, fingerprint, lease = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  local kept = redis.pcall('GET', key)
  if kept == false then
    local flag = #fingerprint > 0 and '1' or '0'
    local done = redis.pcall('SET', key, 'P' .. token .. flag .. fingerprint .. attempt, 'PX', lease)
    answers[i] = done.err and done or token
  elseif type(kept) == 'table' then
    answers[i] = kept -- an error, of this key alone
  else
    local same = string.sub(kept, 1, 1) == 'P' and string.sub(kept, -8) == attempt
    if same and #fingerprint > 0 and string.sub(kept, 18, 18) == '1' then
      same = string.sub(kept, 19, 34) == fingerprint
    end
    if same then
      redis.call('PEXPIRE', key, lease)
      answers[i] = string.sub(kept, 2, 17)
    else
      answers[i] = {kept, redis.call('PTTL', key)}
    end
  end
end
return answers
