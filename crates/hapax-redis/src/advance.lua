-- Advances each key to a version, if it is higher than the one that is kept. ARGV: how the value of a version begins; for each key: version
-- (20 digits), attempt (8 bytes), milliseconds. Answers, for each: 1 if it is that version now, or what is kept.
local head = ARGV[1]
local answers = {}
for i, key in ipairs(KEYS) do
  local version, attempt, expiry = ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]
  local kept = redis.pcall('GET', key)
  local is_higher = kept == false
  if type(kept) == 'string' and #kept == #head + 28 and string.sub(kept, 1, #head) == head then
    -- In two halves: a number is exact up to 2^53 only.
    local known, at = string.sub(kept, #head + 1, #head + 20), 1
    if string.sub(known, 1, 10) == string.sub(version, 1, 10) then
      at = 11
    end
    is_higher = tonumber(string.sub(known, at, at + 9)) < tonumber(string.sub(version, at, at + 9))
  end
  if is_higher then
    local done = redis.pcall('SET', key, head .. version .. attempt, 'PX', expiry)
    answers[i] = done.err and done or 1
  else
    answers[i] = kept -- or an error, of this key alone
  end
end
return answers
