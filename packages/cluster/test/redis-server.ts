import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.js'

/** Why there is no Redis to test with; undefined where there is one. */
export function whyNoRedis(): string | undefined {
  const { error } = spawnSync('redis-server', ['--version'])
  return error === undefined ? undefined : 'there is no redis-server on the PATH'
}

/** Files in PEM format that a server uses TLS with. */
export interface TlsFiles {
  readonly cert: string
  readonly key: string
}

/** A Redis server that keeps nothing on the disk. */
export class RedisServer {
  #process: ChildProcess | undefined

  private constructor(
    readonly port: number,
    private readonly settings: readonly string[],
    private readonly tls?: TlsFiles,
  ) {}

  /**
   * Starts a server on a free port.
   *
   * @param settings further arguments
   */
  static async start(...settings: readonly string[]): Promise<RedisServer> {
    return await RedisServer.#startWith(settings)
  }

  /** The same with TLS and nothing else. */
  static async startWithTls(tls: TlsFiles, ...settings: readonly string[]): Promise<RedisServer> {
    return await RedisServer.#startWith(settings, tls)
  }

  /** Another program may take a port between its being found free and the server's start: then on another one. */
  static async #startWith(settings: readonly string[], tls?: TlsFiles): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), settings, tls)
    try {
      await server.restart()
      return server
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes('Address already in use'))
        throw error
      return await RedisServer.#startWith(settings, tls)
    }
  }

  get url(): string {
    return `${this.#scheme}://127.0.0.1:${this.port}`
  }

  /** The URL for one of its users. */
  urlFor(user: string, password: string): string {
    return `${this.#scheme}://${user}:${password}@127.0.0.1:${this.port}`
  }

  get #scheme(): string {
    return this.tls === undefined ? 'redis' : 'rediss'
  }

  /** Starts it, after it was killed, at the same port and empty. */
  async restart(): Promise<void> {
    // A replica writes what it was sent into its folder, and a server loads what it finds there.
    const folder = mkdtempSync(join(tmpdir(), 'cllm-redis-'))
    const args = [
      ...this.#listening(),
      '--bind',
      '127.0.0.1',
      '--save',
      '',
      '--appendonly',
      'no',
      '--dir',
      folder,
      ...this.settings,
    ]
    const child = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'inherit'] })
    this.#process = child
    child.once('exit', () => rmSync(folder, { recursive: true, force: true }))
    let onEarlyExit: (code: number | null) => void = () => {}
    await new Promise<void>((resolve, reject) => {
      let output = ''
      child.once('error', reject)
      onEarlyExit = (code) => reject(new Error(`redis-server ended with ${code}: ${output}`))
      child.once('exit', onEarlyExit)
      child.stdout.on('data', (data: Buffer) => {
        output += data.toString()
        if (output.includes('Ready to accept connections')) resolve()
      })
    })
    child.off('exit', onEarlyExit)
  }

  /** Its process, once it has started. */
  get pid(): number {
    return this.#process?.pid ?? 0
  }

  /** Kills it and resolves when it is gone. */
  async kill(): Promise<void> {
    const child = this.#process
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const gone = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await gone
  }

  #listening(): string[] {
    const port = String(this.port)
    if (this.tls === undefined) return ['--port', port]
    const { cert, key } = this.tls
    const files = ['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert]
    return ['--port', '0', '--tls-port', port, '--tls-auth-clients', 'no', ...files]
  }
}
