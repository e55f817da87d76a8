import module from 'node:module'
import { compiledFolder } from './models/cache-folder.js'

// From Node 22.1 on, compiled code is kept for the next start; NODE_DISABLE_COMPILE_CACHE=1 turns it off.
const { enableCompileCache } = module as { enableCompileCache?: (folder: string) => unknown }
enableCompileCache?.(process.env['NODE_COMPILE_CACHE'] ?? compiledFolder(process))
await import('./main.js')
