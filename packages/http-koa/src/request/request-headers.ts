import type { Call } from '../routes/call.js'
import { expectedField } from './refusals.js'

const tenantHeader = 'x-cllm-tenant'
const longestName = 256

/**
 * The tenant that a proxy or client names in `x-cllm-tenant`, if any. Throws `invalid_request`.
 */
export function tenantOf(call: Call): string | undefined {
  const tenant = call.header(tenantHeader)
  if (tenant.length <= longestName) return tenant === '' ? undefined : tenant
  const expected = `a name of at most ${longestName} characters`
  throw expectedField(tenantHeader, `${expected}, instead got ${tenant.length} characters`)
}

/** Whether a client of Anthropic's asks, for whom some routes of OpenAI's answer in another form. */
export const isAnthropic = (call: Pick<Call, 'header'>): boolean =>
  call.header('anthropic-version') !== ''

/**
 * In which headers agents name their session: Claude Code, opencode, Codex, and what others agree on. One
 * session may have several agents, whose conversations are their own.
 */
const sessionHeaders = [
  'x-session-id',
  'x-claude-code-session-id',
  'x-session-affinity',
  'x-opencode-session',
  'session_id',
  'session-id',
  'conversation_id',
] as const
const agentHeader = 'x-claude-code-agent-id'

const uuid = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'
/** As Claude Code has it in `metadata.user_id`, between other ids or in JSON. */
const sessionInUser = new RegExp(`session_(?:id" *: *")?(${uuid})`)
/** Codex has its conversation's id as a key for caches, which of others may be anything that prompts share. */
const sessionAsKey = new RegExp(`^${uuid}$`)

/**
 * The program of a request: its `session`, or what clients send in place of one. Undefined: it is learnt from
 * the prompt, if at all.
 */
export function programOf(call: Pick<Call, 'header' | 'fields'>): string | undefined {
  const { metadata, prompt_cache_key: key } = (call.fields ?? {}) as {
    readonly metadata?: { readonly user_id?: unknown }
    readonly prompt_cache_key?: unknown
  }
  for (const name of sessionHeaders) {
    const session = call.header(name)
    if (session === '' || session.length > longestName) continue
    const agent = call.header(agentHeader)
    return agent === '' ? session : `${session}/${agent.slice(0, longestName)}`
  }
  if (typeof metadata?.user_id === 'string') return sessionInUser.exec(metadata.user_id)?.[1]
  return typeof key === 'string' && sessionAsKey.test(key) ? key : undefined
}
