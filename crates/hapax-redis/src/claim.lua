-- Claims each key that has nothing, or whose claim is over. ARGV, for each: attempt (8 bytes), fingerprint (16 bytes or none), lease in
-- milliseconds, doubt in milliseconds (14 digits, or none: then nothing is left behind), holder.
-- Answers, for each: the token and the claim in doubt; or what is kept, and for how many milliseconds.
local now = redis.call('TIME')
local token = string.format('%016.0f', now[1] * 1000000 + now[2])
local answers = {}
for i, key in ipairs(KEYS) do
  local attempt, fingerprint, lease, doubt, holder = unpack(ARGV, 5 * i - 4, 5 * i)
  local kept = redis.pcall('GET', key)
  local before = '0'
  if type(kept) == 'string' then
    local tag = string.sub(kept, 1, 1)
    local trail = (tag == 'P' and 27 or 19) + (string.sub(kept, 18, 18) == '1' and 16 or 0)
    local left = redis.call('PTTL', key)
    local lasts = (tag == 'P' or tag == 'F') and tonumber(string.sub(kept, trail, trail + 13)) or 0
    local over = lasts > 0 and left >= 0 and left <= lasts
    local earlier = trail + 14
    if lasts > 0 and string.sub(kept, earlier, earlier) == '1' then
      before = string.sub(kept, earlier, earlier + 18 + (tonumber(string.sub(kept, earlier + 17, earlier + 18)) or 0))
    elseif over then
      local name = string.sub(kept, earlier + 1)
      before = '1' .. string.sub(kept, 2, 17) .. string.format('%02d', #name) .. name
    end
    local same = tag == 'P' and not over and string.sub(kept, trail - 8, trail - 1) == attempt
    if same and #fingerprint > 0 and string.sub(kept, 18, 18) == '1' then
      same = string.sub(kept, 19, 34) == fingerprint
    end
    if over then
      kept = false
    elseif same then
      redis.call('PEXPIRE', key, lease + lasts)
      answers[i] = string.sub(kept, 2, 17) .. before
    else
      answers[i] = {kept, left}
    end
  end
  if kept == false then
    local flag = #fingerprint > 0 and '1' or '0'
    local trail = #doubt > 0 and doubt .. before .. holder or ''
    local lasts = lease + (tonumber(doubt) or 0)
    local done = redis.pcall('SET', key, 'P' .. token .. flag .. fingerprint .. attempt .. trail, 'PX', lasts)
    answers[i] = done.err and done or token .. before
  elseif type(kept) == 'table' then
    answers[i] = kept -- an error, of this key alone
  end
end
return answers
