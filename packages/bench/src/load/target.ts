import { Agent as HttpAgent, type AgentOptions } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { Api } from '../apis/apis.js'

/** A server to measure. */
export interface Target {
  /** Name in tables and reports. */
  readonly name: string
  readonly url: URL
  readonly api: Api
  readonly model?: string
  readonly headers: Readonly<Record<string, string>>
  /** Further fields for every request body. */
  readonly extraBody: Readonly<Record<string, unknown>>
  /** Reuses connections, or opens a new one for each request. */
  readonly agent: HttpAgent | HttpsAgent
}

/** Whether connections are reused. */
export type Connections = 'reuse' | 'new'

/** An agent for a target's URL. */
export function agentFor(url: URL, connections: Connections): HttpAgent | HttpsAgent {
  const options: AgentOptions = { keepAlive: connections === 'reuse', maxFreeSockets: 4096 }
  return url.protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options)
}

/** The URL of a path below the target's URL. */
export function urlOf(target: Pick<Target, 'url'>, path: string): URL {
  return new URL(target.url.pathname.replace(/\/$/, '') + path, target.url)
}
