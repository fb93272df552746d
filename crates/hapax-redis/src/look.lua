-- What is kept under each key, and for how many milliseconds. ARGV: the last byte of interest, -1 for all.
local answers = {}
for i, key in ipairs(KEYS) do
  local kept = redis.pcall('GETRANGE', key, 0, ARGV[1])
  answers[i] = type(kept) == 'table' and kept or {kept, redis.call('PTTL', key)}
end
return answers
