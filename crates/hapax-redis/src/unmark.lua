-- Removes each key that holds the mark of an attempt. ARGV: for each its attempt, in decimal. Answers, for each: 1, or 0 if it holds something else.
local answers = {}
for i, key in ipairs(KEYS) do
  local kept = redis.pcall('GET', key)
  if type(kept) == 'table' then
    answers[i] = kept -- an error, of this key alone
  else
    answers[i] = kept == ARGV[i] and redis.call('DEL', key) or 0
  end
end
return answers
