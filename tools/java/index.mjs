export { inHome, installJava } from './java.mjs';
