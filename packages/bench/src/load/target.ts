import { Agent as HttpAgent, type AgentOptions } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { Api } from '../apis/api.js'

/** A server to be measured. */
export interface Target {
  /** As tables and reports name it. */
  readonly name: string
  readonly url: URL
  readonly api: Api
  readonly model?: string
  readonly headers: Readonly<Record<string, string>>
  /** More fields for every request's body. */
  readonly extraBody: Readonly<Record<string, unknown>>
  /** Keeps connections, or makes a new one for each request. */
  readonly agent: HttpAgent | HttpsAgent
}

/** Whether connections are used again. */
export type Connections = 'reuse' | 'new'

/** An agent for a target's URL. */
export function agentFor(url: URL, connections: Connections): HttpAgent | HttpsAgent {
  const options: AgentOptions = { keepAlive: connections === 'reuse', maxFreeSockets: 4096 }
  return url.protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options)
}

/** The URL of a path below a target's own. */
export function urlOf(target: Pick<Target, 'url'>, path: string): URL {
  return new URL(target.url.pathname.replace(/\/$/, '') + path, target.url)
}
