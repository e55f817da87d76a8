import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { Server } from './server.js'

/** The server of the page. */
export const ServerContext = createContext<Server | undefined>(undefined)

/** The server that the page came from. */
export function useServer(): Server {
  const server = useContext(ServerContext)
  if (server === undefined) throw new Error('There is no server around this component')
  return server
}
