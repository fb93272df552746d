-- Completes, releases, fails or renews each key that is in progress under a token. ARGV: which of these; for each key: token (16 digits),
-- milliseconds (none at all makes a failure a release), and the last part of a completion's value. Answers, for each: 1, or 0 if the token does not hold.
local what = ARGV[1]
local answers = {}
for i, key in ipairs(KEYS) do
  local token, expiry, tail = ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]
  local kept = redis.pcall('GETRANGE', key, 0, 255)
  local done = 0
  if type(kept) == 'table' then
    done = kept -- an error, of this key alone
  elseif string.sub(kept, 2, 17) == token then
    local tag = string.sub(kept, 1, 1)
    local head = string.sub(kept, 2, string.sub(kept, 18, 18) == '1' and 34 or 18)
    if tag == 'P' then
      local trail = string.sub(kept, #head + 10)
      local doubt = tonumber(string.sub(trail, 1, 14)) or 0
      local before = string.sub(trail, 15, 15) == '1' and string.sub(trail, 1, 33 + (tonumber(string.sub(trail, 32, 33)) or 0))
      local left = redis.call('PTTL', key)
      if doubt > 0 and left >= 0 and left <= doubt then
        done = 0 -- its lease is over, and it is in doubt
      elseif what == 'complete' then
        done = redis.pcall('SET', key, 'C' .. head .. tail, 'PX', expiry)
      elseif what == 'renew' then
        done = redis.pcall('PEXPIRE', key, expiry + doubt)
      elseif before and doubt > 0 then
        done = redis.pcall('SET', key, 'F' .. head .. before, 'PX', expiry + doubt)
      elseif what == 'fail' and expiry ~= '0' then
        done = redis.pcall('SET', key, 'F' .. head, 'PX', expiry)
      else
        done = redis.pcall('DEL', key)
      end
      if type(done) == 'table' and not done.err then
        done = 1
      end
    elseif tag == 'C' and what == 'complete' then
      done = 1 -- again: its answer may have been lost
    end
  end
  answers[i] = done
end
return answers
