-- Marks each key whose claim is over and in doubt. ARGV, for each: attempt in decimal, milliseconds.
-- Answers, for each: what is kept then, or the beginning of it, and for how many milliseconds.
local answers = {}
for i, key in ipairs(KEYS) do
  local kept = redis.pcall('GETRANGE', key, 0, 255)
  if type(kept) == 'table' then
    answers[i] = kept -- an error, of this key alone
  else
    local tag = string.sub(kept, 1, 1)
    local trail = (tag == 'P' and 27 or 19) + (string.sub(kept, 18, 18) == '1' and 16 or 0)
    local left = redis.call('PTTL', key)
    local lasts = (tag == 'P' or tag == 'F') and tonumber(string.sub(kept, trail, trail + 13)) or 0
    if lasts > 0 and left >= 0 and left <= lasts then
      redis.call('SET', key, ARGV[2 * i - 1], 'PX', ARGV[2 * i])
      kept, left = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
    end
    answers[i] = {kept, left}
  end
end
return answers
