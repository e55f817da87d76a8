/** Stylesheets are Vite's; the compiler is told that they exist. */
declare module '*.css'
